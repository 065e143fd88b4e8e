// SPDX-License-Identifier: Apache-2.0
#include "precision/device_precision.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "device/cuda_facts.h"
#include "support/fake_device.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

const GpuFacts kMaxwell{0, "Tesla M40", 5, 2};
const GpuFacts kPascal{0, "Tesla P100-PCIE-16GB", 6, 0};
const GpuFacts kVolta{1, "Tesla V100-SXM2-32GB", 7, 0};
const GpuFacts kTuring{2, "Tesla T4", 7, 5};
const GpuFacts kAmpere{0, "NVIDIA A100-SXM4-80GB", 8, 0};
const GpuFacts kAda{0, "NVIDIA L40S", 8, 9};
const GpuFacts kHopper{3, "NVIDIA H200", 9, 0};

struct GpuCase {
  GpuFacts gpu;
  bool fp16;
  bool bf16;
  bool fp8;
};

TEST(GpuFacts, KnowTheTypesOfEachGeneration) {
  for (const GpuCase& test : {
           GpuCase{kMaxwell, false, false, false},
           GpuCase{kPascal, true, false, false},
           GpuCase{kVolta, true, false, false},
           GpuCase{kTuring, true, false, false},
           GpuCase{kAmpere, true, true, false},
           GpuCase{kAda, true, true, true},
           GpuCase{kHopper, true, true, true},
       }) {
    const auto can = [&](c10::ScalarType type) {
      return gpu_computes_in(type, test.gpu);
    };
    EXPECT_EQ(can(c10::ScalarType::Half), test.fp16) << test.gpu.name;
    EXPECT_EQ(can(c10::ScalarType::BFloat16), test.bf16) << test.gpu.name;
    EXPECT_EQ(can(c10::ScalarType::Float8_e4m3fn), test.fp8) << test.gpu.name;
    EXPECT_EQ(can(c10::ScalarType::Float8_e5m2), test.fp8) << test.gpu.name;
    EXPECT_TRUE(can(c10::ScalarType::Float)) << test.gpu.name;
  }
}

TEST(GpuFacts, ErrorNamesTheArchitecturesOfTheKernels) {
  constexpr const char* kReason =
      "no kernel image is available for execution on the device";

  const UnsupportedError ada =
      missing_kernels_error(kAda, "sm_90 sm_100", kReason);
  EXPECT_STREQ(
      ada.what(),
      "GPU 0, NVIDIA L40S (sm_89), cannot run this build's kernels (compiled "
      "for sm_90 sm_100): no kernel image is available for execution on the "
      "device");
  EXPECT_EQ(
      ada.hint(),
      "rebuild with -DACCELERATE_CUDA_ARCHITECTURES=89, or train on the CPU "
      "with `--cpu`");

  const UnsupportedError turing =
      missing_kernels_error(kTuring, "sm_90", kReason);
  EXPECT_STREQ(
      turing.what(),
      "GPU 2, Tesla T4 (sm_75), cannot run this build's kernels (compiled for "
      "sm_90): no kernel image is available for execution on the device");
  EXPECT_EQ(
      turing.hint(),
      "train on the CPU with `--cpu`: the kernels need sm_80 or later");
}

struct PrecisionCase {
  GpuFacts gpu;
  Precision precision;
  const char* problem;
  const char* hint;
};

TEST(DevicePrecision, ErrorNamesTheGpuAndItsPrecisions) {
  for (const PrecisionCase& test : {
           PrecisionCase{
               kVolta,
               Precision::bf16,
               "GPU 1, Tesla V100-SXM2-32GB (sm_70), does not support `bf16`, "
               "only `fp16` and fp32",
               "use `fp16` or `no`"},
           PrecisionCase{
               kTuring,
               Precision::bf16,
               "GPU 2, Tesla T4 (sm_75), does not support `bf16`, only `fp16` "
               "and fp32",
               "use `fp16` or `no`"},
           PrecisionCase{
               kMaxwell,
               Precision::fp16,
               "GPU 0, Tesla M40 (sm_52), does not support `fp16`, only fp32",
               "use `no`"},
           PrecisionCase{kMaxwell, Precision::no, "", ""},
           PrecisionCase{kTuring, Precision::fp16, "", ""},
           PrecisionCase{kHopper, Precision::bf16, "", ""},
           PrecisionCase{kHopper, Precision::fp16, "", ""},
       }) {
    const auto problem = precision_problem(
        test.precision,
        {str_cat("GPU ", test.gpu.index, ", ", gpu_text(test.gpu)),
         gpu_computes_in(c10::ScalarType::BFloat16, test.gpu),
         gpu_computes_in(c10::ScalarType::Half, test.gpu)});
    EXPECT_EQ(problem ? problem->what() : std::string(), test.problem);
    EXPECT_EQ(problem ? problem->hint() : std::string(), test.hint);
  }
}

TEST(DevicePrecision, QueriesTheDevice) {
  FakeDevice old(c10::kMeta);
  old.text = "Tesla T4 (sm_75)";
  old.has_bf16 = false;

  EXPECT_NO_THROW(check_device_precision(Precision::fp16, old, 1));
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [&] { check_device_precision(Precision::bf16, old, 1); }),
      "GPU 1, Tesla T4 (sm_75), does not support `bf16`, only `fp16` and fp32");
}

}  // namespace
}  // namespace accelerate
