// SPDX-License-Identifier: Apache-2.0
// A value from tokenizer.json with its path, for error messages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace transformers::tokenizers {

class JsonNode {
 public:
  /// `source` is the file name; `path` begins with `$`.
  JsonNode(const accelerate::Json& value, std::string source, std::string path);

  const accelerate::Json& value() const { return *value_; }
  const std::string& source() const { return source_; }
  const std::string& path() const { return path_; }

  /// Return a member. Each function throws `FormatError` with the path when the
  /// member has the wrong type, or is missing and has no default value.
  JsonNode at(std::string_view key) const;
  /// Returns a member, or nothing when the member is missing or null.
  std::optional<JsonNode> find(std::string_view key) const;
  std::string string(std::string_view key) const;
  std::string string(
      std::string_view key, std::string_view default_value) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool default_value) const;
  std::int64_t integer(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t default_value) const;
  /// Returns the member `type`, which names the kind of a component.
  std::string type() const;

  /// Return this value. Each function throws `FormatError` with the path when
  /// the value has the wrong type.
  const std::string& as_string() const;
  bool as_bool() const;
  std::int64_t as_integer() const;
  double as_double() const;
  /// Return the elements of an array, or the members of an object.
  std::vector<JsonNode> elements() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;

  [[noreturn]] void fail(const std::string& message) const;
  /// Throws a `FormatError` that lists the supported names for `stage`.
  [[noreturn]] void fail_unknown(
      std::string_view stage,
      std::string_view name,
      const std::vector<std::string>& known) const;

 private:
  const accelerate::Json* value_;
  std::string source_;
  std::string path_;
};

}  // namespace transformers::tokenizers
