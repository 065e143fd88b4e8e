// SPDX-License-Identifier: Apache-2.0
#include "device/out_of_memory.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>

#include "accelerate/memory.h"
#include "support/fake_device.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

const c10::Device kFull(c10::kMeta, 1);

// Throws the error of LibTorch's CUDA allocator.
[[noreturn]] void run_out() {
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total "
      "capacity of 139.72 GiB of which 3.50 GiB is free.");
  throw std::logic_error("not reached");
}

struct FullDevice : FakeDevice {
  FullDevice() : FakeDevice(c10::kMeta) {
    text = "NVIDIA H200 (sm_90)";
    memory_stats = {
        .free = std::int64_t{7} << 29,
        .total = std::int64_t{140} << 30,
        .peak = std::int64_t{136} << 30};
  }
};

TEST(OutOfMemory, ErrorStatesRequestedFreeAndPeakMemory) {
  const FullDevice gpu;

  EXPECT_EQ(
      message_of<OutOfMemoryError>([] { with_memory_errors(kFull, run_out); }),
      "GPU 1, NVIDIA H200 (sm_90), is out of memory: 20.00 GiB requested, "
      "3.50 GiB of 140.00 GiB free, peak use by tensors 136.00 GiB");
}

// For CPU memory, LibTorch throws the same exception class as for all other
// errors.
TEST(OutOfMemory, IsRecognizedOnTheCpu) {
  const std::string text = message_of<OutOfMemoryError>([] {
    with_memory_errors(c10::Device(c10::kCPU), [] {
      return at::empty({std::int64_t{1} << 50}, at::kFloat);
    });
  });

  EXPECT_NE(text.find("4503599627370496 bytes"), std::string::npos) << text;
}

TEST(OutOfMemory, LetsASmallerBatchSizeBeFound) {
  const FullDevice gpu;
  std::vector<std::int64_t> tried;

  const auto found = find_executable_batch_size(
      [&](std::int64_t size) {
        tried.push_back(size);
        return with_memory_errors(kFull, [&]() -> std::int64_t {
          if (size > 20) {
            run_out();
          }
          return size;
        });
      },
      64,
      [](std::int64_t size) { return size / 2; });

  EXPECT_EQ(found, 16);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{64, 32, 16}));
}

TEST(OutOfMemory, RethrowsOtherErrors) {
  EXPECT_THROW(
      with_memory_errors(kFull, [] { throw std::length_error("other"); }),
      std::length_error);
}

}  // namespace
}  // namespace accelerate
