// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/finite_json.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace accelerate {
namespace {

constexpr const char* kNotFinite = "not_finite";

std::optional<double> number_of(const Json& value) {
  if (!value.is_object() || value.size() != 1) {
    return std::nullopt;
  }
  const Json* name = value.find(kNotFinite);
  if (name == nullptr || !name->is_string()) {
    return std::nullopt;
  }
  if (name->as_string() == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (name->as_string() == "Infinity") {
    return std::numeric_limits<double>::infinity();
  }
  if (name->as_string() == "-Infinity") {
    return -std::numeric_limits<double>::infinity();
  }
  return std::nullopt;
}

// Returns a copy of `value`, with `replace` applied to `value` and all nested
// values. Values for which `replace` returns nothing are copied unchanged.
template <typename Replace>
Json replaced(const Json& value, const Replace& replace) {
  if (std::optional<Json> replacement = replace(value)) {
    return *std::move(replacement);
  }
  if (value.is_array()) {
    Json array = Json::array();
    for (const Json& item : value.as_array()) {
      array.push_back(replaced(item, replace));
    }
    return array;
  }
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [name, item] : value.as_object()) {
      object[name] = replaced(item, replace);
    }
    return object;
  }
  return value;
}

}  // namespace

Json without_infinities(const Json& value) {
  return replaced(value, [](const Json& item) -> std::optional<Json> {
    if (item.type() != Json::Type::real || std::isfinite(item.as_double())) {
      return std::nullopt;
    }
    return Json::object({{kNotFinite, item.dump({.allow_nan = true})}});
  });
}

Json with_infinities(const Json& value) {
  return replaced(value, [](const Json& item) -> std::optional<Json> {
    if (const std::optional<double> number = number_of(item)) {
      return Json(*number);
    }
    return std::nullopt;
  });
}

}  // namespace accelerate
