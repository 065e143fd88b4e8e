// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/plugin.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate::xla {
namespace {

using testing::HasSubstr;

std::string fixture(const std::string& name) {
  return std::string(PJRT_FIXTURES) + "/" + name + ".so";
}

TEST(XlaPlugin, LoadsTheCpuPlugin) {
  const Plugin plugin(XLA_CPU_PLUGIN);

  EXPECT_EQ(plugin.api_version(), "0.81");
  EXPECT_EQ(plugin.kind(), PluginKind::cpu);
}

TEST(XlaPlugin, TurnsXnnpackOffBeforeTheCpuPluginIsLoaded) {
  const Plugin plugin(XLA_CPU_PLUGIN);

  EXPECT_THAT(xla_flags(), HasSubstr("--xla_cpu_use_xnnpack=false"));
}

TEST(XlaPlugin, RefusesARelativePath) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { Plugin("xla_cpu_pjrt.so"); }),
      "the path of the PJRT plugin is relative: `xla_cpu_pjrt.so`");
}

TEST(XlaPlugin, NamesAMissingFile) {
  EXPECT_THAT(
      message_of<UnsupportedError>([] { Plugin("/no/such/plugin.so"); }),
      HasSubstr("XLA cannot be loaded: /no/such/plugin.so: cannot open shared "
                "object file"));
}

TEST(XlaPlugin, RefusesALibraryWithoutTheEntryPoint) {
  const std::string path = fixture("no_entry");

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { Plugin{path}; }),
      "`" + path + "` is not a library for XLA");
}

TEST(XlaPlugin, RefusesAnotherMajorVersion) {
  const std::string path = fixture("other_version");

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { Plugin{path}; }),
      "the PJRT plugin `" + path +
          "` has interface version 7.81, but this build needs 0.x (it was "
          "compiled with 0.81)");
}

TEST(XlaPlugin, NamesTheFunctionThatAnOlderPluginLacks) {
  const std::string path = fixture("short_table");

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { Plugin{path}; }),
      "the PJRT plugin `" + path +
          "` (interface version 0.3) has no `PJRT_Plugin_Initialize`");
}

}  // namespace
}  // namespace accelerate::xla
