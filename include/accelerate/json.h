// SPDX-License-Identifier: Apache-2.0
// A JSON value, for configuration files, model folders and objects that ranks
// exchange.
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
  /// Returns the value of the member `key`, or a null pointer if there is no
  /// such member.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  /// Returns the value of the member `key`. If there is no such member, adds
  /// one with the value null.
  Json& operator[](std::string_view key);
  /// Removes the member `key`; returns whether it existed.
  bool erase(std::string_view key);

  const JsonMember* begin() const noexcept;
  const JsonMember* end() const noexcept;
  JsonMember* begin() noexcept;
  JsonMember* end() noexcept;

 private:
  class Index;  // Hash index by key; built for objects with many members.
  std::size_t position(std::string_view key) const;

  std::vector<JsonMember> members_;
  mutable std::unique_ptr<Index> index_;
};

/// Limits and error context for `Json::parse` and `Json::from_cbor`.
struct JsonParseOptions {
  /// The name of the input in errors: a path or a description.
  std::string source = "JSON text";
  /// The maximum nesting depth. This limit keeps deeply nested input from
  /// exhausting the stack.
  std::size_t max_depth = 256;
  std::size_t max_bytes = std::size_t{1} << 30;
  /// The maximum number of elements of an array. An element can need many times
  /// as much memory as its text.
  std::size_t max_array = SIZE_MAX;
  /// If the text is part of a file, the offset of the text in the file. Errors
  /// then name the byte offset in the file instead of the line and column.
  std::optional<std::size_t> byte_offset = std::nullopt;
  /// Whether to accept `NaN`, `Infinity` and `-Infinity`, as Python does.
  bool allow_nan = false;
};

struct JsonDumpOptions {
  /// Spaces per nesting level; a negative number writes everything on one line.
  int indent = -1;
  /// Whether to escape every character outside ASCII, as Python does by
  /// default.
  bool ensure_ascii = false;
  /// Whether to write `NaN`, `Infinity` and `-Infinity`, as Python does. If
  /// false, `dump` throws for these numbers, because JSON cannot represent
  /// them.
  bool allow_nan = false;
};

/// One JSON value. Copies are deep.
///
/// Objects keep the order of their members. Integers have 64 bits; larger
/// integers become doubles. Thread safety: concurrent reads are safe; a write
/// must not overlap any other access.
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

  /// Returns the value as a bool. Like all `as_…` functions, throws a
  /// `FormatError` that names the expected and the actual type if the value has
  /// another type.
  bool as_bool() const;
  std::int64_t as_integer() const;
  double as_double() const;  ///< Accepts integers too.
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  /// Returns the number of elements of an array or members of an object; 0 for
  /// every other type.
  std::size_t size() const noexcept;
  /// Returns the member `key`, or a null pointer if the member is missing or
  /// this value is not an object.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Returns the member `key` or the element at `index`. If it is missing,
  /// throws a `FormatError` that names the key, or the index and the size.
  const Json& at(std::string_view key) const;
  const Json& at(std::size_t index) const;
  /// Returns the member `key`; adds the member if it is missing. If this value
  /// is null, it becomes an object.
  Json& operator[](std::string_view key);
  /// Appends an element. If this value is null, it becomes an array.
  void push_back(Json element);

  /// Parses standard JSON: UTF-8, no comments, no duplicate keys; see
  /// `JsonParseOptions` for `NaN`. Throws `FormatError` with the text
  /// `source:line:column: what is wrong`.
  static Json parse(
      std::string_view text, const JsonParseOptions& options = {});
  /// Returns the value as JSON text. Throws `ArgumentError` for a string that
  /// is not UTF-8, and for a number that JSON cannot represent.
  std::string dump(const JsonDumpOptions& options = {}) const;

  /// Encodes the value as CBOR (RFC 8949), for exchange between processes.
  /// Preserves every double, including NaN and the infinities; strings may
  /// contain any bytes.
  std::vector<std::uint8_t> to_cbor() const;
  /// Decodes CBOR. Throws `FormatError` with the byte offset if the input is
  /// malformed.
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
