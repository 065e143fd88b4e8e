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

// Whether `name` is the name of a file in the folder of the index. The file may
// be a symbolic link that points anywhere: download caches consist of such
// links.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Returns the offset of a tensor's entry, or the start of the map if the name
// contains escape sequences.
std::size_t offset_of(std::string_view json, const std::string& tensor) {
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
    throw FormatError(
        str_cat(path, ": byte 0: the object `weight_map` is missing"));
  }
  SafetensorsIndex files;
  for (const auto& [tensor, file] : map->as_object()) {
    const auto fail = [&, &name = tensor](const std::string& problem) {
      throw FormatError(str_cat(
          path,
          ": byte ",
          offset_of(json, name),
          ": `",
          printable(name),
          "` ",
          problem));
    };
    if (!file.is_string()) {
      fail("is not mapped to a file name");
    }
    if (!is_plain_file_name(file.as_string())) {
      fail(str_cat(
          "is mapped to `",
          printable(file.as_string()),
          "`, which is not a file in this folder"));
    }
    files[file.as_string()].push_back(tensor);
  }
  return files;
}

SafetensorsIndex read_safetensors_index(const std::filesystem::path& path) {
  return parse_safetensors_index(read_file(path, kMaxIndex), path.string());
}

}  // namespace accelerate
