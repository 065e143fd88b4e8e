// SPDX-License-Identifier: Apache-2.0
#include "base/plugin.h"

#include <utility>

#include <dlfcn.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// Without a slash in the path, dlopen would search other folders.
void* open_plugin(const std::filesystem::path& path, const PluginKind& kind) {
  void* const handle = ::dlopen(
      std::filesystem::absolute(path).c_str(),
      RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    throw UnsupportedError(
        str_cat(
            kind.feature,
            " cannot be loaded: ",
            reason != nullptr ? reason : "dlopen gave no reason"),
        kind.hint);
  }
  return handle;
}

}  // namespace

Plugin::Plugin(const std::filesystem::path& path, PluginKind kind)
    : path_(path), kind_(std::move(kind)), handle_(open_plugin(path_, kind_)) {
}

void* Plugin::find_entry() const {
  void* const entry = ::dlsym(handle_, kind_.entry.c_str());
  if (entry == nullptr) {
    throw_not_a_plugin();
  }
  return entry;
}

void Plugin::throw_not_a_plugin() const {
  throw UnsupportedError(
      str_cat("`", path_.string(), "` is not a library for ", kind_.feature),
      str_cat("use a library that exports the function `", kind_.entry, "`"));
}

void Plugin::check_versions(const std::vector<PluginVersion>& versions) const {
  for (const auto& [name, of_plugin, required] : versions) {
    if (of_plugin != required) {
      throw UnsupportedError(
          str_cat(
              "`",
              path_.string(),
              "` was built with ",
              name,
              " ",
              of_plugin,
              ", but this libaccelerate was built with ",
              required),
          "build both libraries from the same source tree with the same "
          "LibTorch");
    }
  }
}

std::filesystem::path library_folder(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return std::filesystem::current_path();
  }
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

}  // namespace accelerate
