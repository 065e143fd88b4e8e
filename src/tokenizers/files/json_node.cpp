// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/files/json_node.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::tokenizers {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::str_cat;

JsonNode::JsonNode(const Json& value, std::string source, std::string path)
    : value_(&value), source_(std::move(source)), path_(std::move(path)) {
}

void JsonNode::fail(const std::string& message) const {
  throw FormatError(str_cat(source_, ": ", path_, ": ", message));
}

void JsonNode::fail_unknown(
    std::string_view stage,
    std::string_view name,
    const std::vector<std::string>& known) const {
  throw FormatError(
      str_cat(
          source_,
          ": ",
          path_,
          ": `",
          accelerate::printable(name),
          "` is not a supported ",
          stage),
      str_cat("use one of ", accelerate::join(known, ", ")));
}

namespace {

// Calls `read` and adds the path to its `FormatError`.
template <typename Read>
decltype(auto) with_path(const JsonNode& node, Read read) {
  try {
    return read();
  } catch (const FormatError& error) {
    node.fail(error.what());
  }
}

}  // namespace

const std::string& JsonNode::as_string() const {
  return with_path(
      *this, [&]() -> const std::string& { return value_->as_string(); });
}

bool JsonNode::as_bool() const {
  return with_path(*this, [&] { return value_->as_bool(); });
}

std::int64_t JsonNode::as_integer() const {
  return with_path(*this, [&] { return value_->as_integer(); });
}

double JsonNode::as_double() const {
  return with_path(*this, [&] { return value_->as_double(); });
}

JsonNode JsonNode::at(std::string_view key) const {
  const Json& member =
      with_path(*this, [&]() -> const Json& { return value_->at(key); });
  return JsonNode(member, source_, str_cat(path_, ".", key));
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) {
    fail("expected an object");
  }
  const Json* member = value_->find(key);
  if (member == nullptr || member->is_null()) {
    return std::nullopt;
  }
  return JsonNode(*member, source_, str_cat(path_, ".", key));
}

std::string JsonNode::string(std::string_view key) const {
  return at(key).as_string();
}

std::string JsonNode::string(
    std::string_view key, std::string_view default_value) const {
  const auto member = find(key);
  return member ? member->as_string() : std::string(default_value);
}

bool JsonNode::boolean(std::string_view key) const {
  return at(key).as_bool();
}

bool JsonNode::boolean(std::string_view key, bool default_value) const {
  const auto member = find(key);
  return member ? member->as_bool() : default_value;
}

std::int64_t JsonNode::integer(std::string_view key) const {
  return at(key).as_integer();
}

std::int64_t JsonNode::integer(
    std::string_view key, std::int64_t default_value) const {
  const auto member = find(key);
  return member ? member->as_integer() : default_value;
}

std::string JsonNode::type() const {
  return string("type");
}

std::vector<JsonNode> JsonNode::elements() const {
  const Json::Array& array = with_path(
      *this, [&]() -> const Json::Array& { return value_->as_array(); });
  std::vector<JsonNode> nodes;
  for (std::size_t i = 0; i < array.size(); ++i) {
    nodes.emplace_back(array[i], source_, str_cat(path_, "[", i, "]"));
  }
  return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  const Json::Object& object = with_path(
      *this, [&]() -> const Json::Object& { return value_->as_object(); });
  std::vector<std::pair<std::string, JsonNode>> nodes;
  for (const accelerate::JsonMember& member : object) {
    nodes.emplace_back(
        member.key,
        JsonNode(member.value, source_, str_cat(path_, ".", member.key)));
  }
  return nodes;
}

}  // namespace transformers::tokenizers
