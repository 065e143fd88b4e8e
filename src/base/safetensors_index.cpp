// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors_index.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxIndex = std::size_t{256} << 20;

// A link of that name may lead anywhere, which is how caches of downloads are
// laid out.
bool is_own_file(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Where a tensor's entry stands; the map's start when it is written with
// escapes.
std::size_t place_of(std::string_view json, const std::string& tensor) {
  const std::size_t map = std::min(json.find("\"weight_map\""), json.size());
  const std::size_t found = json.find(Json(tensor).dump(), map + 1);
  return found == std::string_view::npos ? map : found;
}

}  // namespace

SafetensorsIndex parse_safetensors_index(
    std::string_view json, const std::string& path) {
  const Json index = Json::parse(json, {.source = path});
  const Json* map = index.is_object() ? index.find("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) {
    throw FormatError(str_cat(path, ": byte 0: no object `weight_map`"));
  }
  SafetensorsIndex files;
  for (const auto& [tensor, file] : map->as_object()) {
    const auto fail = [&, &name = tensor](const std::string& what) {
      throw FormatError(str_cat(
          path,
          ": byte ",
          place_of(json, name),
          ": `",
          printable(name),
          "` ",
          what));
    };
    if (!file.is_string()) {
      fail("names no file");
    }
    if (!is_own_file(file.as_string())) {
      fail(str_cat(
          "is in `",
          printable(file.as_string()),
          "`, which is no file of this folder"));
    }
    files[file.as_string()].push_back(tensor);
  }
  return files;
}

SafetensorsIndex read_safetensors_index(const std::filesystem::path& path) {
  return parse_safetensors_index(read_file(path, kMaxIndex), path.string());
}

}  // namespace accelerate
