// SPDX-License-Identifier: Apache-2.0
#include "tracking/installed_version.h"

#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// A virtual environment with a package.
void make_python(const TemporaryDirectory& folder, const std::string& package) {
  const fs::path python = folder.write("bin/python3", "");
  fs::permissions(python, fs::perms::owner_all);
  folder.write("pyvenv.cfg", "");
  fs::create_directories(
      folder.path() / "lib/python3.11/site-packages" /
      (package + ".dist-info"));
}

TEST(InstalledVersion, FindsThePackageNextToPython) {
  const TemporaryDirectory folder;
  make_python(folder, "wandb-0.29.1");
  const Environment environment(
      {{"PATH", "/missing:" + (folder.path() / "bin").string()}});

  EXPECT_EQ(installed_version("wandb", environment), "0.29.1");
  EXPECT_EQ(installed_version("wan", environment), std::nullopt);
  EXPECT_EQ(installed_version("wandb", Environment()), std::nullopt);
}

TEST(InstalledVersion, WarnsAboutAnotherMinorVersion) {
  const TemporaryDirectory folder;
  make_python(folder, "wandb-0.29.1");
  const Environment environment({{"PATH", (folder.path() / "bin").string()}});

  testing::internal::CaptureStderr();
  warn_about_other_version("wandb", "0.31", environment);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: tracker `wandb` writes the format of wandb 0.31, but version "
      "0.29.1 is installed, which may be unable to read it\n");
  testing::internal::CaptureStderr();
  warn_about_other_version("wandb", "0.29", environment);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace accelerate
