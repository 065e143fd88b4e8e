// SPDX-License-Identifier: Apache-2.0
// Reads and writes the fields of a `config.json`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/json.h"
#include "transformers/configuration.h"

namespace transformers {

/// Reads the members of a JSON object. Each member is removed when it is read,
/// so the members that remain in `rest` are unknown.
class FieldReader {
 public:
  /// Throws `FormatError` unless `json` is an object.
  FieldReader(const accelerate::Json& json, std::string source);

  /// Sets `field` if the object has a member named `key` or one of `aliases`.
  /// Throws a `FormatError` that names the key if the member has the wrong
  /// type.
  template <typename Field>
  void operator()(
      std::string_view key,
      Field& field,
      std::initializer_list<std::string_view> aliases = {}) {
    if (const auto value = take(key, aliases)) {
      set(key, field, *value);
    }
  }

  /// Removes and returns the member named `key` or one of `aliases`. Returns
  /// nothing if there is no such member.
  std::optional<accelerate::Json> take(
      std::string_view key,
      std::initializer_list<std::string_view> aliases = {});

  const accelerate::Json& rest() const { return rest_; }
  const std::string& source() const { return source_; }

 private:
  using Json = accelerate::Json;

  void set(std::string_view key, std::int64_t& field, const Json& value) const;
  void set(std::string_view key, double& field, const Json& value) const;
  void set(std::string_view key, bool& field, const Json& value) const;
  void set(std::string_view key, std::string& field, const Json& value) const;
  template <typename Value>
  void set(std::string_view key, std::vector<Value>& field, const Json& value)
      const {
    check(value.is_array(), key, value, "a list");
    field.clear();
    for (const Json& element : value.as_array()) {
      set(key, field.emplace_back(), element);
    }
  }
  template <typename Value>
  void set(std::string_view key, std::optional<Value>& field, const Json& value)
      const {
    if (value.is_null()) {
      field.reset();
    } else {
      set(key, field.emplace(), value);
    }
  }
  void check(
      bool is_expected,
      std::string_view key,
      const Json& value,
      std::string_view expected) const;

  Json rest_;
  std::string source_;
};

/// Writes fields to a JSON object, sorted by name.
class FieldWriter {
 public:
  template <typename Field>
  void operator()(
      std::string_view key,
      const Field& field,
      std::initializer_list<std::string_view> = {}) {
    members_[std::string(key)] = to_json(field);
  }
  /// Writes the field if it has a value.
  template <typename Field>
  void optional(std::string_view key, const std::optional<Field>& field) {
    if (field) {
      (*this)(key, *field);
    }
  }
  void add(const accelerate::Json& others);
  accelerate::Json json() const;

 private:
  template <typename Value>
  static accelerate::Json to_json(const Value& value) {
    return accelerate::Json(value);
  }
  template <typename Value>
  static accelerate::Json to_json(const std::optional<Value>& value) {
    return value ? accelerate::Json(*value) : accelerate::Json();
  }

  std::map<std::string, accelerate::Json> members_;
};

/// Checks fields: throws `ArgumentError` if a dropout rate is not between 0 and
/// 1.
class FieldChecker {
 public:
  void operator()(std::string_view key, double value) const;
  void operator()(
      std::string_view key, const std::optional<double>& value) const {
    if (value) {
      (*this)(key, *value);
    }
  }
  /// Accepts all other fields; they are checked where they are used.
  template <typename Field>
  void operator()(
      std::string_view,
      const Field&,
      std::initializer_list<std::string_view> = {}) const {}
};

void read_common(FieldReader& reader, PretrainedConfig& common);
void write_common(FieldWriter& writer, const PretrainedConfig& common);

void read_fields(FieldReader& reader, RopeParameters& rope);
accelerate::Json to_json(const RopeParameters& rope);

}  // namespace transformers
