// SPDX-License-Identifier: Apache-2.0
// Tests datasets that hang: the loop reports the sample, and the program can
// continue.
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "support/counting_datasets.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

/// Blocks threads until the test ends, and then waits for them to leave.
class Gate {
 public:
  void pass() const {
    inside_->fetch_add(1);
    open_->wait();
    inside_->fetch_sub(1);
  }
  bool has_waiters() const { return inside_->load() > 0; }
  void open() const {
    open_->count_down();
    while (has_waiters()) {
      std::this_thread::yield();
    }
  }

 private:
  std::shared_ptr<std::latch> open_ = std::make_shared<std::latch>(1);
  std::shared_ptr<std::atomic<int>> inside_ =
      std::make_shared<std::atomic<int>>(0);
};

struct HangingDataset {
  std::int64_t bad = 5;
  Gate gate = {};

  std::int64_t size() const { return 20; }
  std::int64_t get(std::int64_t index) const {
    if (index == bad) {
      gate.pass();
    }
    return index;
  }
};

struct HangingStream {
  std::int64_t bad = 5;
  Gate gate = {};
  std::int64_t index = 0;

  std::optional<std::int64_t> next() {
    if (index == bad) {
      gate.pass();
    }
    return index++;
  }
};

template <typename Loader>
std::string message_of_loop(Loader& loader) {
  return message_of<IoError>([&] {
    for (auto& batch : loader) {
      static_cast<void>(batch);
    }
  });
}

TEST(Hanging, GetIsReportedWithItsSample) {
  const HangingDataset dataset;
  DataLoader loader(
      dataset,
      {.batch_size = 2,
       .num_workers = 2,
       .timeout = milliseconds(300),
       .warn_after = milliseconds(100)});

  testing::internal::CaptureStderr();
  const std::string message = message_of_loop(loader);

  EXPECT_EQ(message, "sample 5 of the dataset was not ready within 300 ms");
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: the loop over the data loader has waited 100 ms for sample 5 "
      "of the dataset; the timeout is 300 ms\n");
  dataset.gate.open();
}

TEST(Hanging, DoesNotWarnWhenTheTimeoutComesFirst) {
  const HangingDataset dataset;
  DataLoader loader(dataset, {.num_workers = 1, .timeout = milliseconds(50)});

  testing::internal::CaptureStderr();
  const std::string message = message_of_loop(loader);

  EXPECT_EQ(message, "sample 5 of the dataset was not ready within 50 ms");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  dataset.gate.open();
}

TEST(Hanging, StreamIsReportedWithItsSample) {
  const HangingStream stream;
  DataLoader loader(
      stream,
      {.batch_size = 2, .num_workers = 1, .timeout = milliseconds(100)});

  EXPECT_EQ(
      message_of_loop(loader),
      "sample 5 of the dataset was not ready within 100 ms");
  stream.gate.open();
}

TEST(Hanging, CollateIsReported) {
  const Gate gate;
  DataLoader loader(
      Counting{4},
      {.batch_size = 2, .num_workers = 1, .timeout = milliseconds(100)},
      [gate](const std::vector<std::int64_t>&) {
        gate.pass();
        return 0;
      });

  EXPECT_EQ(
      message_of_loop(loader),
      "a batch that is being collated was not ready within 100 ms");
  gate.open();
}

// The worker prefetches sample 5 while the loop processes its first batch.
TEST(Hanging, WorkerDoesNotBlockALoopThatEndsEarly) {
  const HangingDataset dataset;
  DataLoader loader(
      dataset,
      {.batch_size = 2,
       .num_workers = 2,
       .timeout = milliseconds(200),
       .warn_after = milliseconds(100)});

  testing::internal::CaptureStderr();
  for (auto& batch : loader) {
    static_cast<void>(batch);
    while (!dataset.gate.has_waiters()) {
      std::this_thread::yield();
    }
    break;
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: a loop over the data loader ended early and has waited 100 ms "
      "for a worker that is "
      "busy with "
      "sample 5 of the dataset\n");
  dataset.gate.open();
}

// After the error the loader still works: the next loop has new workers.
TEST(Hanging, LeavesTheLoaderUsable) {
  const HangingDataset dataset;
  DataLoader loader(dataset, {.num_workers = 1, .timeout = milliseconds(100)});
  message_of_loop(loader);
  dataset.gate.open();

  EXPECT_EQ(read_all(loader).size(), 20);
}

}  // namespace
}  // namespace accelerate
