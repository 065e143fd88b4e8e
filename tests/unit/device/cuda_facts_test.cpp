// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device_library.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

CudaFacts everything() {
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

TEST(CudaFacts, NothingIsMissing) {
  EXPECT_EQ(problem_of(everything()), "none");
}

TEST(CudaFacts, SaysThatThereIsNoDriver) {
  CudaFacts facts = everything();
  facts.driver_version.reset();
  facts.driver_error = "libcuda.so.1: cannot open shared object file";

  EXPECT_EQ(
      problem_of(facts),
      "there is no NVIDIA driver here: libcuda.so.1: cannot open shared "
      "object file");
  EXPECT_EQ(hint_of(facts), "install one, or train on the CPU with `--cpu`");
}

TEST(CudaFacts, SaysThatTheDriverIsTooOld) {
  CudaFacts facts = everything();
  facts.driver_version = 12040;

  EXPECT_EQ(
      problem_of(facts),
      "the NVIDIA driver runs CUDA up to 12.4, this build needs 13.0");
  EXPECT_EQ(
      hint_of(facts),
      "install driver 580 or later, or train on the CPU with `--cpu`");
}

TEST(CudaFacts, SaysThatLibTorchHasNoCuda) {
  CudaFacts facts = everything();
  facts.torch_has_cuda = false;

  EXPECT_EQ(
      problem_of(facts), "LibTorch in /opt/torch/lib is built without CUDA");
  EXPECT_EQ(
      hint_of(facts),
      "build with the LibTorch of `make deps`, or with another that has "
      "libtorch_cuda.so");
}

TEST(CudaFacts, SaysThatTheHalfIsNotBuilt) {
  CudaFacts facts = everything();
  facts.has_library = false;

  EXPECT_EQ(
      problem_of(facts),
      "this build has no CUDA half: there is no "
      "/opt/lib/libaccelerate_cuda.so");
  EXPECT_EQ(
      hint_of(facts),
      "install a CUDA toolkit 13 and rebuild, with -DACCELERATE_CUDA=ON to be "
      "told what is missing");
}

TEST(CudaFacts, NcclOfAnotherReleaseIsRefused) {
  EXPECT_NO_THROW(check_nccl_versions({2, 28, 9}, {2, 28, 3}));
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [] { check_nccl_versions({2, 28, 9}, {2, 27, 5}); }),
      "the CUDA half was compiled with NCCL 2.28.9, but LibTorch loads NCCL "
      "2.27.5");
}

// Whatever this host has, both ways of asking agree.
TEST(DeviceLibrary, TellsWhatTheFactsSay) {
  const auto problem = cuda_problem(collect_cuda_facts());
  if (problem) {
    EXPECT_EQ(
        message_of<UnsupportedError>([] { cuda_backend(); }), problem->what());
    EXPECT_EQ(find_device_backend(), nullptr);
  } else {
    EXPECT_STREQ(cuda_backend().name(), "CUDA");
  }
}

// The library itself, opened past all checks: where LibTorch's CUDA libraries
// are missing, the first of them is named; where they are there, it loads
// without a GPU.
TEST(DeviceLibrary, LoadsWithoutAGpuOrNamesWhatIsMissing) {
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
