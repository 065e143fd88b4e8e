// SPDX-License-Identifier: Apache-2.0
// A value of tokenizer.json that knows its path, so that errors can say it.
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
  /// `source` is the file; `path` begins with `$`.
  JsonNode(const accelerate::Json& value, std::string source, std::string path);

  const accelerate::Json& value() const { return *value_; }
  const std::string& source() const { return source_; }
  const std::string& path() const { return path_; }

  /// Members. Each throws `FormatError` with the path when the member is
  /// missing or of another type.
  JsonNode at(std::string_view key) const;
  /// Nothing when the member is missing or null.
  std::optional<JsonNode> find(std::string_view key) const;
  std::string string(std::string_view key) const;
  std::string string(std::string_view key, std::string_view otherwise) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::int64_t integer(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  /// The `type` of a component.
  std::string type() const;

  /// This value. Each throws `FormatError` with the path.
  const std::string& as_string() const;
  bool as_bool() const;
  std::int64_t as_integer() const;
  double as_double() const;
  /// Elements of an array, members of an object.
  std::vector<JsonNode> elements() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;

  [[noreturn]] void fail(const std::string& what) const;
  /// Fails naming what this stage of a tokenizer can be.
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
