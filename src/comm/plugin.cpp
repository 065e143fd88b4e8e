// SPDX-License-Identifier: Apache-2.0
#include "comm/plugin.h"

#include <cctype>
#include <filesystem>

#include <dlfcn.h>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// The address of this object identifies the library (or test program) that
// contains this file.
const char kMarker = 0;

std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(&kMarker, &info) == 0 || info.dli_fname == nullptr) {
    return std::filesystem::current_path();
  }
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

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

// The library is never unloaded, because threads and exit handlers of MPI and
// CUDA outlive every backend.
void* open_library(
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
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw UnsupportedError(
        str_cat(
            "the `",
            name,
            "` backend cannot be loaded: ",
            reason != nullptr ? reason : "dlopen gave no reason"),
        "install the libraries that the backend needs, or choose another "
        "backend");
  }
  return handle;
}

const BackendPlugin& table_of(
    void* handle, const std::filesystem::path& library) {
  const auto entry =
      reinterpret_cast<BackendPluginEntry>(dlsym(handle, kPluginEntryName));
  const BackendPlugin* table = entry != nullptr ? entry() : nullptr;
  if (table == nullptr) {
    throw UnsupportedError(
        str_cat(library.string(), " is not an accelerate backend"),
        str_cat("export `", kPluginEntryName, "` from the library"));
  }
  return *table;
}

void check_versions(
    const BackendPlugin& table, const std::filesystem::path& library) {
  const std::string hint =
      "build both libraries from the same source with the same LibTorch";
  if (table.abi != kPluginAbi) {
    throw UnsupportedError(
        str_cat(
            library.string(),
            " has plugin interface version ",
            table.abi,
            ", but this libaccelerate has version ",
            kPluginAbi),
        hint);
  }
  if (std::string(table.torch_version) != TORCH_VERSION) {
    throw UnsupportedError(
        str_cat(
            library.string(),
            " was built with LibTorch ",
            table.torch_version,
            ", but this libaccelerate was built with ",
            TORCH_VERSION),
        hint);
  }
}

}  // namespace

const BackendPlugin& load_backend_plugin(
    const std::string& name, const std::string& folder) {
  const std::filesystem::path library =
      (folder.empty() ? own_folder() : std::filesystem::path(folder)) /
      str_cat("libaccelerate_", name, ".so");
  const BackendPlugin& table = table_of(open_library(name, library), library);
  check_versions(table, library);
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
