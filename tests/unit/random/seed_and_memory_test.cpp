// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <new>
#include <stdexcept>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/memory.h"
#include "accelerate/partial_state.h"
#include "accelerate/seed.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

at::Tensor drawn_after(std::uint64_t seed, const SetSeedOptions& options = {}) {
  set_seed(seed, options);
  return at::rand({4});
}

TEST(SetSeed, RepeatsTheNumbers) {
  const at::Tensor first = drawn_after(42);
  EXPECT_TRUE(drawn_after(42).equal(first));
  EXPECT_FALSE(drawn_after(43).equal(first));
}

TEST(SetSeed, AddsTheProcessIndexIfDeviceSpecific) {
  const SetSeedOptions third = {.device_specific = true, .process_index = 3};
  EXPECT_TRUE(drawn_after(42, third).equal(drawn_after(45)));
  // Without `device_specific`, the index has no effect.
  EXPECT_TRUE(drawn_after(42, {.process_index = 3}).equal(drawn_after(42)));
  PartialState::reset();
  EXPECT_EQ(
      message_of<StateError>([] { set_seed(42, {.device_specific = true}); }),
      "`set_seed` with `device_specific` needs the index of this process, but "
      "there is no PartialState yet");
}

TEST(SetSeed, EnablesDeterministicAlgorithms) {
  set_seed(1);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  set_seed(1, {.deterministic = true});
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  at::globalContext().setDeterministicAlgorithms(false, false);
}

std::vector<std::int64_t> sizes_tried(
    std::int64_t fits, std::int64_t start, ReduceBatchSize reduce = {}) {
  std::vector<std::int64_t> tried;
  const std::int64_t found = find_executable_batch_size(
      [&](std::int64_t size) {
        tried.push_back(size);
        if (size > fits) {
          throw std::runtime_error("CUDA out of memory. Tried to allocate");
        }
        return size;
      },
      start,
      std::move(reduce));
  EXPECT_EQ(found, tried.back());
  return tried;
}

TEST(FindExecutableBatchSize, ReducesByATenth) {
  EXPECT_EQ(
      sizes_tried(90, 128), (std::vector<std::int64_t>{128, 115, 103, 92, 82}));
  EXPECT_EQ(sizes_tried(8, 10), (std::vector<std::int64_t>{10, 9, 8}));
}

TEST(FindExecutableBatchSize, UsesTheReduceFunction) {
  EXPECT_EQ(
      sizes_tried(20, 128, [](std::int64_t size) { return size / 2; }),
      (std::vector<std::int64_t>{128, 64, 32, 16}));
}

TEST(FindExecutableBatchSize, RejectsAFunctionThatDoesNotReduce) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { sizes_tried(1, 16, [](std::int64_t size) { return size; }); }),
      "the `reduce` function passed to `find_executable_batch_size` returned "
      "16, which is not smaller than the current batch size of 16");
  EXPECT_EQ(
      message_of<ArgumentError>([] { sizes_tried(1, 0); }),
      "`starting_batch_size` is 0");
}

TEST(FindExecutableBatchSize, ThrowsWhenNoSizeIsLeft) {
  EXPECT_EQ(
      message_of<OutOfMemoryError>([] { sizes_tried(0, 2); }),
      "no batch size fits in memory; the last one tried, 1, failed with: CUDA "
      "out of memory. Tried to allocate");
}

TEST(FindExecutableBatchSize, RethrowsOtherErrors) {
  int calls = 0;
  const auto body = [&](std::int64_t) {
    ++calls;
    throw std::invalid_argument("another error");
  };
  EXPECT_EQ(
      message_of<std::invalid_argument>(
          [&] { find_executable_batch_size(body); }),
      "another error");
  EXPECT_EQ(calls, 1);
}

TEST(FindExecutableBatchSize, FreesObjectsBeforeTheNextAttempt) {
  std::weak_ptr<int> last;
  find_executable_batch_size(
      [&](std::int64_t size) {
        EXPECT_TRUE(last.expired());
        const auto kept = std::make_shared<int>(1);
        last = kept;
        if (size > 8) {
          throw OutOfMemoryError("no memory");
        }
      },
      10);
}

bool out_of_memory(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    return is_out_of_memory(std::current_exception());
  }
  return false;
}

TEST(IsOutOfMemory, RecognizesOutOfMemoryErrors) {
  EXPECT_TRUE(out_of_memory([] { throw OutOfMemoryError("x"); }));
  EXPECT_TRUE(out_of_memory([] { throw std::bad_alloc(); }));
  EXPECT_TRUE(out_of_memory([] {
    throw std::runtime_error("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.");
  }));
  EXPECT_TRUE(
      out_of_memory([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "x"); }));
  // More memory than any machine has, so LibTorch throws its out-of-memory
  // error.
  EXPECT_TRUE(
      out_of_memory([] { at::empty({std::int64_t{1} << 55}, at::kByte); }));
  EXPECT_FALSE(out_of_memory([] { throw std::runtime_error("memory"); }));
  EXPECT_FALSE(out_of_memory([] { throw 1; }));
}

TEST(ReleaseMemory, ReleasesAllObjects) {
  auto shared = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = shared;
  at::Tensor tensor = at::ones({2});
  std::vector<at::Tensor> outputs = {tensor};

  release_memory(shared, tensor, outputs);

  EXPECT_TRUE(watch.expired());
  EXPECT_FALSE(tensor.defined());
  EXPECT_TRUE(outputs.empty());
}

}  // namespace
}  // namespace accelerate
