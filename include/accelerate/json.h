// SPDX-License-Identifier: Apache-2.0
// A JSON value: what configuration files, model folders and objects exchanged
// between ranks are made of.
//
//     const auto config = accelerate::Json::parse(text, {.source = "a.json"});
//     const auto layers = config.at("num_hidden_layers").as_integer();
//     auto report = accelerate::Json::object({{"layers", layers}});
//     report["name"] = "bert";
//     std::cout << report.dump({.indent = 2}) << "\n";
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/export.h"

namespace accelerate {

class Json;
struct JsonMember;

/// The members of a JSON object, in the order in which they were added.
class ACCELERATE_API JsonObject {
 public:
  JsonObject();
  JsonObject(const JsonObject&);
  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(const JsonObject&);
  JsonObject& operator=(JsonObject&&) noexcept;
  ~JsonObject();

  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  /// Returns the member's value, or null when there is none of that name.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  /// Returns the member's value, after adding a null one when there is none.
  Json& operator[](std::string_view key);
  /// Removes a member; returns whether there was one.
  bool erase(std::string_view key);

  const JsonMember* begin() const noexcept;
  const JsonMember* end() const noexcept;
  JsonMember* begin() noexcept;
  JsonMember* end() noexcept;

 private:
  class Index;  // By name, once there are enough members to make it worth it.
  std::size_t position(std::string_view key) const;

  std::vector<JsonMember> members_;
  mutable std::unique_ptr<Index> index_;
};

/// What `Json::parse` and `Json::from_cbor` accept.
struct JsonParseOptions {
  /// Named in errors: a path, or what the text is.
  std::string source = "JSON text";
  /// Deeper nesting is an error, so that no input can exhaust the stack.
  std::size_t max_depth = 256;
  std::size_t max_bytes = std::size_t{1} << 30;
  /// For text inside a file: where it begins there. Errors then name the byte
  /// of the file in place of line and column.
  std::optional<std::size_t> byte_offset = std::nullopt;
};

struct JsonDumpOptions {
  /// Spaces per level; below 0 everything is on one line.
  int indent = -1;
  /// Writes every character outside ASCII as an escape, as Python does.
  bool ensure_ascii = false;
  /// Writes `NaN`, `Infinity` and `-Infinity` as Python does; without it they
  /// are an error, because JSON has no word for them.
  bool allow_nan = false;
};

/// One JSON value. A plain value type: copies are deep, nothing is shared.
///
/// Objects keep the order of their members. Whole numbers are 64-bit integers;
/// those that do not fit become doubles. Not thread-safe while modified.
class ACCELERATE_API Json {
 public:
  using Array = std::vector<Json>;
  using Object = JsonObject;
  enum class Type { null, boolean, integer, real, string, array, object };

  Json() = default;
  Json(std::nullptr_t) {}                                // NOLINT
  Json(bool value) : value_(value) {}                    // NOLINT
  Json(double value) : value_(value) {}                  // NOLINT
  Json(std::string value) : value_(std::move(value)) {}  // NOLINT
  Json(std::string_view value);                          // NOLINT
  Json(const char* value);                               // NOLINT
  Json(Array value) : value_(std::move(value)) {}        // NOLINT
  Json(Object value) : value_(std::move(value)) {}       // NOLINT
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  Json(Integer value)  // NOLINT
      : value_(static_cast<std::int64_t>(value)) {}
  template <typename Value>
  Json(const std::vector<Value>& values)  // NOLINT
      : value_(Array(values.begin(), values.end())) {}

  static Json array(std::initializer_list<Json> elements = {});
  static Json object(
      std::initializer_list<std::pair<std::string_view, Json>> members = {});

  Type type() const noexcept { return static_cast<Type>(value_.index()); }
  bool is_null() const noexcept { return type() == Type::null; }
  bool is_bool() const noexcept { return type() == Type::boolean; }
  bool is_integer() const noexcept { return type() == Type::integer; }
  bool is_number() const noexcept {
    return type() == Type::integer || type() == Type::real;
  }
  bool is_string() const noexcept { return type() == Type::string; }
  bool is_array() const noexcept { return type() == Type::array; }
  bool is_object() const noexcept { return type() == Type::object; }

  /// Each throws `FormatError` naming the type there is and the one asked for.
  bool as_bool() const;
  std::int64_t as_integer() const;
  double as_double() const;  ///< Integers too.
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  /// Number of elements or members; 0 for everything else.
  std::size_t size() const noexcept;
  /// Returns a member, or null when this is no object or has none.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Throws `FormatError` naming the key, or the index and the size.
  const Json& at(std::string_view key) const;
  const Json& at(std::size_t index) const;
  /// Returns a member, adding it when missing; null turns into an object.
  Json& operator[](std::string_view key);
  /// Appends an element; null turns into an array.
  void push_back(Json element);

  /// Parses JSON as the standard has it: UTF-8, no comments, no duplicate
  /// keys. Throws `FormatError` as `source:line:column: what is wrong`.
  static Json parse(
      std::string_view text, const JsonParseOptions& options = {});
  /// Throws `ArgumentError` when a string is not UTF-8, or on a number JSON
  /// cannot write.
  std::string dump(const JsonDumpOptions& options = {}) const;

  /// CBOR (RFC 8949), for exchange between processes. Every double survives,
  /// NaN and the infinities too, and strings may hold any bytes.
  std::vector<std::uint8_t> to_cbor() const;
  /// Throws `FormatError` with the byte offset.
  static Json from_cbor(
      std::span<const std::uint8_t> bytes,
      const JsonParseOptions& options = {.source = "CBOR data"});

  bool operator==(const Json& other) const;

 private:
  std::variant<
      std::monostate,
      bool,
      std::int64_t,
      double,
      std::string,
      Array,
      Object>
      value_;
};

struct JsonMember {
  std::string key;
  Json value;

  bool operator==(const JsonMember& other) const = default;
};

}  // namespace accelerate
