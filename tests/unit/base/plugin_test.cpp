// SPDX-License-Identifier: Apache-2.0
// The C library serves as the plugin; unit/comm/plugin and unit/device load
// real ones.
#include "base/plugin.h"

#include <cstdlib>

#include <dlfcn.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

std::filesystem::path c_library() {
  Dl_info info{};
  EXPECT_NE(::dladdr(reinterpret_cast<void*>(&::abort), &info), 0);
  return info.dli_fname;
}

Plugin open_as(const std::filesystem::path& path, const std::string& entry) {
  return {path, {.feature = "TPU support", .entry = entry, .hint = "look"}};
}

TEST(Plugin, IsNeverSearchedInOtherFolders) {
  EXPECT_THAT(
      [] { open_as(c_library().filename(), "abort"); },
      ThrowsMessage<UnsupportedError>(StartsWith(
          "TPU support cannot be loaded: " +
          (std::filesystem::current_path() / c_library().filename())
              .string())));
}

TEST(Plugin, NeedsTheEntryPoint) {
  EXPECT_THAT(
      [] { open_as(c_library(), "GetTpuTable").table<int>(); },
      ThrowsMessage<UnsupportedError>(
          "`" + c_library().string() + "` is not a library for TPU support"));
}

TEST(Plugin, ComparesVersionsInOrder) {
  const Plugin plugin = open_as(c_library(), "abort");

  plugin.check_versions({{"interface", "3", "3"}, {"LibTorch", "2", "2"}});
  EXPECT_THAT(
      [&] {
        plugin.check_versions(
            {{"interface", "3", "3"},
             {"LibTorch", "1", "2"},
             {"fused blocks", "8", "9"}});
      },
      ThrowsMessage<UnsupportedError>(
          HasSubstr("was built with LibTorch 1, but this libaccelerate was "
                    "built with 2")));
}

}  // namespace
}  // namespace accelerate
