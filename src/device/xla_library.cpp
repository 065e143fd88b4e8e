// SPDX-License-Identifier: Apache-2.0
#include "device/xla_library.h"

#include <filesystem>

#include <dlfcn.h>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// Marks the library (or the test program) that this file is linked into.
const char kXlaMarker = 0;

std::filesystem::path own_folder() {
  Dl_info info{};
  return dladdr(&kXlaMarker, &info) != 0 && info.dli_fname != nullptr
             ? std::filesystem::absolute(info.dli_fname).parent_path()
             : std::filesystem::path();
}

// Never unloaded: LibTorch keeps pointers into it.
void* open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw UnsupportedError(
        str_cat(
            "the XLA device cannot be loaded: ",
            reason != nullptr ? reason : "dlopen gave no reason"),
        "rebuild with -DACCELERATE_XLA=ON, which makes CMake report what is "
        "missing");
  }
  return handle;
}

void check_build(const XlaPlugin& table, const std::string& path) {
  if (table.abi != kXlaAbi) {
    throw UnsupportedError(
        str_cat(
            "`", path, "` has XLA interface version ", table.abi,
            ", but this libaccelerate has version ", kXlaAbi),
        "build both libraries from the same source tree");
  }
  if (std::string(table.torch_version) != TORCH_VERSION) {
    throw UnsupportedError(
        str_cat(
            "`", path, "` was built with LibTorch ", table.torch_version,
            ", but this libaccelerate was built with ", TORCH_VERSION),
        "build both libraries with the same LibTorch");
  }
}

}  // namespace

const XlaPlugin& open_xla_library(const std::string& path) {
  const auto entry = reinterpret_cast<XlaPluginEntry>(
      dlsym(open_library(path), kXlaEntryName));
  const XlaPlugin* table = entry != nullptr ? entry() : nullptr;
  if (table == nullptr) {
    throw UnsupportedError(
        str_cat("`", path, "` is not an accelerate XLA library"),
        str_cat(
            "pass a library that exports the function `", kXlaEntryName, "`"));
  }
  check_build(*table, path);
  return *table;
}

const XlaPlugin& load_xla_library() {
  static const XlaPlugin& plugin =
      open_xla_library((own_folder() / "libaccelerate_xla.so").string());
  return plugin;
}

}  // namespace accelerate
