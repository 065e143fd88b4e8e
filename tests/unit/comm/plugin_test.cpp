// SPDX-License-Identifier: Apache-2.0
#include "comm/plugin.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "support/temporary_folder.h"

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

TEST(LoadBackendPlugin, NamesTheMissingLibraryAndTheOption) {
  const TemporaryFolder folder;

  const auto error = error_of("mpi", folder.path().string());

  EXPECT_EQ(
      error.what(),
      "this build has no `mpi` backend: there is no " + folder.path().string() +
          "/libaccelerate_mpi.so");
  EXPECT_EQ(
      error.hint(),
      "rebuild with -DACCELERATE_MPI=ON, or choose another backend");
}

TEST(LoadBackendPlugin, LooksBesideLibaccelerate) {
  const auto error = error_of("nonesuch", "");

  EXPECT_EQ(
      std::string(error.what()),
      std::string("this build has no `nonesuch` backend: there is no ") +
          LIBRARY_FOLDER + "/libaccelerate_nonesuch.so");
}

TEST(LoadBackendPlugin, PassesOnWhatTheLoaderSays) {
  const TemporaryFolder folder;
  std::ofstream(folder.path().string() + "/libaccelerate_text.so")
      << "not a library";

  const auto error = error_of("text", folder.path().string());

  EXPECT_EQ(
      error.what(),
      "the `text` backend cannot be loaded: " + folder.path().string() +
          "/libaccelerate_text.so: file too short");
  EXPECT_EQ(
      error.hint(),
      "install the libraries it needs, or choose another backend");
}

TEST(LoadBackendPlugin, RefusesALibraryWithoutTheEntry) {
  const auto error = error_of("no_entry", kFixtures);

  EXPECT_EQ(
      error.what(),
      kFixtures + "/libaccelerate_no_entry.so is not a backend of accelerate");
}

TEST(LoadBackendPlugin, RefusesAnotherInterface) {
  const auto error = error_of("other_abi", kFixtures);

  EXPECT_EQ(
      error.what(),
      kFixtures +
          "/libaccelerate_other_abi.so has plugin interface 4711, "
          "this libaccelerate has " +
          std::to_string(kPluginAbi));
}

TEST(LoadBackendPlugin, RefusesAnotherLibTorch) {
  const auto error = error_of("other_torch", kFixtures);

  EXPECT_EQ(
      error.what(),
      kFixtures +
          "/libaccelerate_other_torch.so was built with LibTorch "
          "1.0.0, this libaccelerate with " TORCH_VERSION);
}

TEST(LoadBackendPlugin, HandsOutTheTableOfAFittingLibrary) {
  const BackendPlugin& plugin = load_backend_plugin("fitting", kFixtures);

  EXPECT_STREQ(plugin.name, "fixture");
  EXPECT_EQ(plugin.create({}), nullptr);
}

}  // namespace
}  // namespace accelerate
