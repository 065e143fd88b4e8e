// SPDX-License-Identifier: Apache-2.0
#include "device/xla_library.h"

#include <torch/headeronly/version.h>

#include "base/plugin.h"

namespace accelerate {
namespace {

// Marks the library (or the test program) that this file is linked into.
const char kXlaMarker = 0;

}  // namespace

const XlaPlugin& open_xla_library(const std::string& path) {
  const Plugin library(
      path,
      {.feature = "the XLA device",
       .entry = kXlaEntryName,
       .hint = "rebuild with -DACCELERATE_XLA=ON, which makes CMake report "
               "what is missing"});
  const auto& table = library.table<XlaPlugin>();
  // `abi` comes first: the layout of all other fields depends on it.
  library.check_versions(
      {{"XLA interface", std::to_string(table.abi), std::to_string(kXlaAbi)}});
  library.check_versions({{"LibTorch", table.torch_version, TORCH_VERSION}});
  return table;
}

const XlaPlugin& load_xla_library() {
  static const XlaPlugin& plugin = open_xla_library(
      (library_folder(&kXlaMarker) / "libaccelerate_xla.so").string());
  return plugin;
}

}  // namespace accelerate
