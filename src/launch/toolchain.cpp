// SPDX-License-Identifier: Apache-2.0
#include "launch/toolchain.h"

#include <filesystem>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

// Paths in the file are relative to the prefix of the installation, so that an
// installation can be moved.
std::vector<std::string> strings(
    const Json& json, const char* key, const std::string& prefix) {
  std::vector<std::string> result;
  if (const Json* list = json.find(key)) {
    for (const Json& element : list->as_array()) {
      result.push_back(replace_all(element.as_string(), "@PREFIX@", prefix));
    }
  }
  return result;
}

Toolchain read_toolchain(const std::filesystem::path& path) {
  const std::string prefix =
      path.parent_path().parent_path().parent_path().string();
  try {
    const Json json =
        Json::parse(read_file(path, kMaxBytes), {.source = path.string()});
    Toolchain toolchain;
    toolchain.path = path.string();
    toolchain.compiler = json.at("compiler").as_string();
    toolchain.flags = strings(json, "flags", prefix);
    toolchain.link_flags = strings(json, "link_flags", prefix);
    toolchain.headers = strings(json, "headers", prefix);
    toolchain.libraries = strings(json, "libraries", prefix);
    if (const Json* version = json.find("torch_version")) {
      toolchain.torch_version = version->as_string();
    }
    return toolchain;
  } catch (const Error& error) {
    throw ConfigError(str_cat(path.string(), ": ", error.what()));
  }
}

}  // namespace

Toolchain find_toolchain(
    const std::string& executable,
    const std::optional<std::string>& override_path) {
  if (override_path) {
    return read_toolchain(*override_path);
  }
  const auto path =
      std::filesystem::path(executable).parent_path().parent_path() /
      "share/accelerate/toolchain.json";
  return std::filesystem::exists(path) ? read_toolchain(path) : Toolchain();
}

}  // namespace accelerate
