// SPDX-License-Identifier: Apache-2.0
#include "comm/plugin.h"

#include <cctype>
#include <filesystem>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "base/plugin.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// The address of this object identifies the library (or test program) that
// contains this file.
const char kMarker = 0;

std::string to_upper_case(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string hint_to_build(const std::string& name) {
  return str_cat(
      "rebuild with -DACCELERATE_",
      to_upper_case(name),
      "=ON, or choose another backend");
}

void check_exists(
    const std::string& name, const std::filesystem::path& library) {
  if (!std::filesystem::exists(library)) {
    throw UnsupportedError(
        str_cat(
            "this build has no `",
            name,
            "` backend: ",
            library.string(),
            " does not exist"),
        hint_to_build(name));
  }
}

}  // namespace

const BackendPlugin& load_backend_plugin(
    const std::string& name, const std::string& folder) {
  const std::filesystem::path library =
      (folder.empty() ? library_folder(&kMarker)
                      : std::filesystem::path(folder)) /
      str_cat("libaccelerate_", name, ".so");
  check_exists(name, library);
  const Plugin plugin(
      library,
      {.feature = str_cat("the `", name, "` backend"),
       .entry = kPluginEntryName,
       .hint = "install the libraries that the backend needs, or choose "
               "another backend"});
  const auto& table = plugin.table<BackendPlugin>();
  // `abi` comes first: the layout of all other fields depends on it.
  plugin.check_versions(
      {{"plugin interface",
        std::to_string(table.abi),
        std::to_string(kPluginAbi)}});
  plugin.check_versions({{"LibTorch", table.torch_version, TORCH_VERSION}});
  return table;
}

bool has_backend_plugin(const std::string& name) {
  try {
    load_backend_plugin(name);
    return true;
  } catch (const UnsupportedError&) {
    return false;
  }
}

std::unique_ptr<Transport> create_plugin_transport(
    const std::string& name, const PluginGroupOptions& options) {
  return std::unique_ptr<Transport>(load_backend_plugin(name).create(options));
}

}  // namespace accelerate
