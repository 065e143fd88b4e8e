// SPDX-License-Identifier: Apache-2.0
#include "tracking/flatten.h"

#include <cmath>

#include "base/str_cat.h"

namespace accelerate {
namespace {

void flatten_into(
    const Json& value,
    const std::string& prefix,
    std::vector<std::pair<std::string, Json>>& flat) {
  if (!value.is_object()) {
    flat.emplace_back(prefix.empty() ? "value" : prefix, value);
    return;
  }
  for (const JsonMember& member : value.as_object()) {
    flatten_into(
        member.value,
        prefix.empty() ? member.key : str_cat(prefix, "/", member.key),
        flat);
  }
}

}  // namespace

std::vector<std::pair<std::string, Json>> flatten_json(const Json& config) {
  std::vector<std::pair<std::string, Json>> flat;
  flatten_into(config, "", flat);
  return flat;
}

Json json_number(double value) {
  if (std::isnan(value)) {
    return Json("NaN");
  }
  if (std::isinf(value)) {
    return Json(value > 0 ? "Infinity" : "-Infinity");
  }
  return Json(value);
}

Json writable_json(const Json& value) {
  if (value.type() == Json::Type::real) {
    return json_number(value.as_double());
  }
  if (value.is_array()) {
    Json result = Json::array();
    for (const Json& element : value.as_array()) {
      result.push_back(writable_json(element));
    }
    return result;
  }
  if (value.is_object()) {
    Json result = Json::object();
    for (const JsonMember& member : value.as_object()) {
      result[member.key] = writable_json(member.value);
    }
    return result;
  }
  return value;
}

}  // namespace accelerate
