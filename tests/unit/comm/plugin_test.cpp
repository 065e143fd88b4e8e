// SPDX-License-Identifier: Apache-2.0
#include "comm/plugin.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

const std::string kFixtures = FIXTURE_FOLDER;

UnsupportedError error_of(const std::string& name, const std::string& folder) {
  try {
    load_backend_plugin(name, folder);
  } catch (const UnsupportedError& error) {
    return error;
  }
  throw std::runtime_error("`" + name + "` was loaded");
}

TEST(LoadBackendPlugin, NamesTheMissingLibraryAndTheBuildOption) {
  const TemporaryDirectory folder;

  const auto error = error_of("mpi", folder.path().string());

  EXPECT_EQ(
      error.what(),
      "this build has no `mpi` backend: " + folder.path().string() +
          "/libaccelerate_mpi.so does not exist");
  EXPECT_EQ(
      error.hint(),
      "rebuild with -DACCELERATE_MPI=ON, or choose another backend");
}

TEST(LoadBackendPlugin, SearchesTheFolderOfLibaccelerate) {
  const auto error = error_of("nonesuch", "");

  EXPECT_EQ(
      std::string(error.what()),
      std::string("this build has no `nonesuch` backend: ") + LIBRARY_FOLDER +
          "/libaccelerate_nonesuch.so does not exist");
}

TEST(LoadBackendPlugin, ReportsTheErrorOfTheDynamicLoader) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path().string() + "/libaccelerate_text.so")
      << "not a library";

  const auto error = error_of("text", folder.path().string());

  EXPECT_EQ(
      error.what(),
      "the `text` backend cannot be loaded: " + folder.path().string() +
          "/libaccelerate_text.so: file too short");
  EXPECT_EQ(
      error.hint(),
      "install the libraries that the backend needs, or choose another "
      "backend");
}

TEST(LoadBackendPlugin, RejectsALibraryWithoutTheEntryPoint) {
  const auto error = error_of("no_entry", kFixtures);

  EXPECT_EQ(
      error.what(),
      "`" + kFixtures +
          "/libaccelerate_no_entry.so` is not a library for the `no_entry` "
          "backend");
}

TEST(LoadBackendPlugin, RejectsAnotherInterfaceVersion) {
  const auto error = error_of("other_abi", kFixtures);

  EXPECT_EQ(
      error.what(),
      "`" + kFixtures +
          "/libaccelerate_other_abi.so` was built with plugin interface 4711, "
          "but this libaccelerate was built with " +
          std::to_string(kPluginAbi));
}

TEST(LoadBackendPlugin, RejectsAnotherLibTorchVersion) {
  const auto error = error_of("other_torch", kFixtures);

  EXPECT_EQ(
      error.what(),
      "`" + kFixtures +
          "/libaccelerate_other_torch.so` was built with LibTorch "
          "1.0.0, but this libaccelerate was built with " TORCH_VERSION);
}

TEST(LoadBackendPlugin, ReturnsTheTableOfACompatibleLibrary) {
  const BackendPlugin& plugin = load_backend_plugin("compatible", kFixtures);

  EXPECT_STREQ(plugin.name, "fixture");
  EXPECT_EQ(plugin.create({}), nullptr);
}

}  // namespace
}  // namespace accelerate
