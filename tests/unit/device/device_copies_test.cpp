// SPDX-License-Identifier: Apache-2.0
// Tests when batches are copied to a device, and which stream waits for which
// other stream.
#include "data/device_copies.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/ops/_to_copy_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "accelerate/data_loader.h"
#include "base/str_cat.h"
#include "device/token_counts.h"

namespace accelerate {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

const c10::Device kDevice(c10::kMeta);

std::vector<std::string> lines;

std::string owner_of(const c10::Stream& stream) {
  return stream.id() == 0 ? "user" : "loader";
}

// A device with two streams that logs the calls it receives.
struct LoggingGuard : c10::impl::NoOpDeviceGuardImpl<c10::kMeta> {
  c10::Stream getStreamFromGlobalPool(
      c10::Device /*device*/, bool /*high*/) const override {
    return stream(1);
  }
  c10::Stream getStream(c10::Device /*device*/) const noexcept override {
    return stream(current);
  }
  c10::Stream exchangeStream(c10::Stream next) const noexcept override {
    return stream(std::exchange(current, next.id()));
  }
  void record(
      void** /*event*/,
      const c10::Stream& on,
      c10::DeviceIndex /*device*/,
      c10::EventFlag /*flag*/) const override {
    lines.push_back("event of " + owner_of(on));
  }
  void block(void* /*event*/, const c10::Stream& waits) const override {
    lines.push_back(owner_of(waits) + " waits");
  }

  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, kDevice, id);
  }
  static thread_local c10::StreamId current;
};
thread_local c10::StreamId LoggingGuard::current = 0;

at::Tensor to_copy(
    const at::Tensor& from,
    std::optional<at::ScalarType> type,
    std::optional<at::Layout> layout,
    std::optional<at::Device> device,
    std::optional<bool> pinned,
    bool non_blocking,
    std::optional<at::MemoryFormat> format) {
  if (device && device->is_meta()) {
    lines.push_back(str_cat(
        owner_of(LoggingGuard::stream(LoggingGuard::current)),
        " copies ",
        from.numel(),
        non_blocking ? "" : " and waits"));
  }
  return at::native::_to_copy(
      from, type, layout, device, pinned, non_blocking, format);
}

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  lines.push_back(str_cat(owner_of(stream), " uses ", tensor.numel()));
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("_to_copy", &to_copy);
  library.impl("record_stream", &record_stream);
}

class DeviceCopiesTest : public testing::Test {
 protected:
  DeviceCopiesTest() { lines.clear(); }
  ~DeviceCopiesTest() override { guard_slot().store(before_); }

 private:
  static std::atomic<const c10::impl::DeviceGuardImplInterface*>& guard_slot() {
    return c10::impl::device_guard_impl_registry[static_cast<std::size_t>(
        c10::kMeta)];
  }

  static inline const LoggingGuard guard;
  const c10::impl::DeviceGuardImplInterface* before_ =
      guard_slot().exchange(&guard);
};

TEST_F(DeviceCopiesTest, CopyOnTheirOwnStreamAndTheUserStreamWaitsForIt) {
  const DeviceCopies copies(kDevice);

  const auto moved = copies.copy(
      {at::ones({2}), at::Tensor(), at::ones({3})}, /*non_blocking=*/true);

  EXPECT_TRUE(moved[0].is_meta());
  EXPECT_FALSE(moved[1].defined());
  EXPECT_THAT(
      lines,
      ElementsAre(
          "loader copies 2",
          "loader copies 3",
          "event of loader",
          "user waits",
          "user uses 2",
          "user uses 3"));
}

// Memory that is not pinned may be freed before the copy has finished.
TEST_F(DeviceCopiesTest, WaitForUnpinnedMemoryByDefault) {
  const DeviceCopies copies(kDevice);

  copies.copy({at::ones({2})}, /*non_blocking=*/false);

  EXPECT_EQ(lines.front(), "loader copies 2 and waits");
}

TEST_F(DeviceCopiesTest, KeepTensorsThatAreOnTheDevice) {
  const DeviceCopies copies(kDevice);
  const at::Tensor on_device = at::empty({4}, at::TensorOptions(kDevice));

  EXPECT_TRUE(copies.copy({on_device}, false)[0].is_same(on_device));

  EXPECT_THAT(lines, ElementsAre("event of loader", "user waits"));
}

// A loader attaches the token counts to the copy of a mask.
TEST_F(DeviceCopiesTest, CountTheTokensOfMasks) {
  const DeviceCopies copies(kDevice);
  at::Tensor mask = at::ones({2, 5}, at::kLong);
  mask[1].narrow(0, 3, 2).zero_();

  const auto moved = copies.copy({mask, at::ones({2, 5})}, false);

  ASSERT_TRUE(token_counts_of(moved[0]));
  EXPECT_EQ(token_counts_of(moved[0])->real, 8);
  EXPECT_EQ(known_range(moved[0])->max, 1);
  EXPECT_FALSE(token_counts_of(moved[1]));
}

// Sample i is a tensor of i + 1 numbers. One worker reads the samples in order,
// so when the worker has started sample i, all earlier samples are ready.
class CountedReads {
 public:
  std::int64_t size() const { return kSize; }
  at::Tensor get(std::int64_t index) const {
    {
      const std::lock_guard lock(mutex_);
      started_ = index;
    }
    changed_.notify_all();
    return at::ones({index + 1});
  }
  bool has_started(std::int64_t index) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(
        lock, seconds(20), [&] { return started_ >= index; });
  }

  static constexpr std::int64_t kSize = 8;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::int64_t started_ = -1;
};

// A loader takes its dataset by value.
struct SharedReads {
  std::shared_ptr<CountedReads> reads = std::make_shared<CountedReads>();

  std::int64_t size() const { return reads->size(); }
  at::Tensor get(std::int64_t index) const { return reads->get(index); }
};

// The copy of the next batch starts before the program gets the current batch,
// and runs while the program uses the current batch.
TEST_F(DeviceCopiesTest, StartCopyingTheNextBatchBeforeThisOneIsUsed) {
  const SharedReads dataset;
  DataLoader loader(
      dataset,
      {.batch_size = 1,
       .num_workers = 1,
       .prefetch_factor = CountedReads::kSize,
       .pin_memory = false});
  ShardOptions options;
  options.device = kDevice;
  options.configuration.non_blocking = true;
  loader.shard(options);

  std::int64_t step = 0;
  for (const at::Tensor& batch : loader) {
    EXPECT_TRUE(batch.is_meta());
    lines.push_back(str_cat("step ", step));
    ASSERT_TRUE(dataset.reads->has_started(
        std::min(step + 3, CountedReads::kSize - 1)));
    ++step;
  }

  std::vector<std::string> order;
  for (const std::string& line : lines) {
    if (!line.ends_with("waits") && !line.starts_with("event")) {
      order.push_back(line);
    }
  }
  EXPECT_EQ(step, CountedReads::kSize);
  // From the second step on, the workers are ahead of the loop.
  for (std::int64_t k = 1; k + 2 < CountedReads::kSize; ++k) {
    const auto copy =
        std::find(order.begin(), order.end(), str_cat("loader copies ", k + 2));
    const auto use = std::find(order.begin(), order.end(), str_cat("step ", k));
    // Work on the user's stream between these events runs in parallel with the
    // copy.
    const auto taken =
        std::find(order.begin(), order.end(), str_cat("user uses ", k + 2));
    EXPECT_TRUE(copy < use && use < taken) << testing::PrintToString(order);
    EXPECT_NE(taken, order.end());
  }
}

}  // namespace
}  // namespace accelerate
