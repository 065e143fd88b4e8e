// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device_library.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

CudaFacts complete_facts() {
  CudaFacts facts;
  facts.driver_version = 13000;
  facts.torch_folder = "/opt/torch/lib";
  facts.torch_has_cuda = true;
  facts.library = "/opt/lib/libaccelerate_cuda.so";
  facts.has_library = true;
  return facts;
}

std::string problem_of(const CudaFacts& facts) {
  const auto problem = cuda_problem(facts);
  return problem ? problem->what() : "none";
}

std::string hint_of(const CudaFacts& facts) {
  const auto problem = cuda_problem(facts);
  return problem ? problem->hint() : "none";
}

TEST(CudaFacts, ReportsNoProblemWhenNothingIsMissing) {
  EXPECT_EQ(problem_of(complete_facts()), "none");
}

TEST(CudaFacts, ReportsAMissingDriver) {
  CudaFacts facts = complete_facts();
  facts.driver_version.reset();
  facts.driver_error = "libcuda.so.1: cannot open shared object file";

  EXPECT_EQ(
      problem_of(facts),
      "this machine has no NVIDIA driver: libcuda.so.1: cannot open shared "
      "object file");
  EXPECT_EQ(
      hint_of(facts), "install the driver, or train on the CPU with `--cpu`");
}

TEST(CudaFacts, ReportsADriverThatIsTooOld) {
  CudaFacts facts = complete_facts();
  facts.driver_version = 12040;

  EXPECT_EQ(
      problem_of(facts),
      "the NVIDIA driver supports CUDA up to 12.4, but this build needs CUDA "
      "13.0");
  EXPECT_EQ(
      hint_of(facts),
      "install driver 580 or later, or train on the CPU with `--cpu`");
}

TEST(CudaFacts, ReportsALibTorchWithoutCuda) {
  CudaFacts facts = complete_facts();
  facts.torch_has_cuda = false;

  EXPECT_EQ(
      problem_of(facts),
      "the LibTorch in /opt/torch/lib was built without CUDA");
  EXPECT_EQ(
      hint_of(facts),
      "build with the LibTorch that `make deps` installs, or with another "
      "LibTorch that contains libtorch_cuda.so");
}

TEST(CudaFacts, ReportsABuildWithoutCuda) {
  CudaFacts facts = complete_facts();
  facts.has_library = false;

  EXPECT_EQ(
      problem_of(facts),
      "this build has no CUDA support: `/opt/lib/libaccelerate_cuda.so` does "
      "not "
      "exist");
  EXPECT_EQ(
      hint_of(facts),
      "install CUDA toolkit 13 and rebuild; -DACCELERATE_CUDA=ON makes "
      "CMake "
      "report what is missing");
}

TEST(CudaFacts, ThrowsForAnotherNcclRelease) {
  EXPECT_NO_THROW(check_nccl_versions({2, 28, 9}, {2, 28, 3}));
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [] { check_nccl_versions({2, 28, 9}, {2, 27, 5}); }),
      "libaccelerate_cuda.so was compiled with NCCL 2.28.9, but LibTorch loads "
      "NCCL 2.27.5");
}

// On any machine, `cuda_backend` throws the error that `cuda_problem` returns.
TEST(DeviceLibrary, ThrowsTheProblemOfTheFacts) {
  const auto problem = cuda_problem(collect_cuda_facts());
  if (problem) {
    EXPECT_EQ(
        message_of<UnsupportedError>([] { cuda_backend(); }), problem->what());
    EXPECT_EQ(find_device_backend(), nullptr);
  } else {
    EXPECT_STREQ(cuda_backend().name(), "CUDA");
  }
}

// Loads the library without any check. If LibTorch's CUDA libraries are
// missing, the error contains the name of the first missing library. Otherwise,
// the library can be loaded without a GPU.
TEST(DeviceLibrary, LoadsWithoutAGpuOrNamesTheMissingLibrary) {
#ifdef ACCELERATE_CUDA_LIBRARY
  try {
    DeviceBackend& backend = open_device_library(ACCELERATE_CUDA_LIBRARY);
    EXPECT_STREQ(backend.name(), "CUDA");
    EXPECT_GE(backend.device_count(), 0);
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("CUDA cannot be loaded: lib"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("make build CUDA=1"));
  }
#endif
  EXPECT_THAT(
      message_of<UnsupportedError>([] { open_device_library("/no/lib.so"); }),
      testing::HasSubstr("CUDA cannot be loaded: /no/lib.so"));
}

}  // namespace
}  // namespace accelerate
