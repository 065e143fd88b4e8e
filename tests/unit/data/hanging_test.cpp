// SPDX-License-Identifier: Apache-2.0
// Datasets that never answer: the loop says which sample, and goes on.
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

/// Holds whoever waits until the test ends, and then waits for them to go.
class Gate {
 public:
  void pass() const {
    inside_->fetch_add(1);
    open_->wait();
    inside_->fetch_sub(1);
  }
  bool somebody_waits() const { return inside_->load() > 0; }
  void open() const {
    open_->count_down();
    while (somebody_waits()) {
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
std::string what_a_loop_throws(Loader& loader) {
  return message_of<IoError>([&] {
    for (auto& batch : loader) {
      static_cast<void>(batch);
    }
  });
}

TEST(Hanging, GetIsNamedByItsSample) {
  const HangingDataset dataset;
  DataLoader loader(
      dataset,
      {.batch_size = 2,
       .num_workers = 2,
       .timeout = milliseconds(300),
       .warn_after = milliseconds(100)});

  testing::internal::CaptureStderr();
  const std::string message = what_a_loop_throws(loader);

  EXPECT_EQ(message, "sample 5 of the dataset did not come within 300 ms");
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: the loop has waited 100 ms for sample 5 of the dataset; it "
      "gives up after 300 ms\n");
  dataset.gate.open();
}

TEST(Hanging, WarnsOfNothingWhenItGivesUpFirst) {
  const HangingDataset dataset;
  DataLoader loader(dataset, {.num_workers = 1, .timeout = milliseconds(50)});

  testing::internal::CaptureStderr();
  const std::string message = what_a_loop_throws(loader);

  EXPECT_EQ(message, "sample 5 of the dataset did not come within 50 ms");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  dataset.gate.open();
}

TEST(Hanging, StreamIsNamedByItsSample) {
  const HangingStream stream;
  DataLoader loader(
      stream,
      {.batch_size = 2, .num_workers = 1, .timeout = milliseconds(100)});

  EXPECT_EQ(
      what_a_loop_throws(loader),
      "sample 5 of the dataset did not come within 100 ms");
  stream.gate.open();
}

TEST(Hanging, CollateIsToldFromGet) {
  const Gate gate;
  DataLoader loader(
      Counting{4},
      {.batch_size = 2, .num_workers = 1, .timeout = milliseconds(100)},
      [gate](const std::vector<std::int64_t>&) {
        gate.pass();
        return 0;
      });

  EXPECT_EQ(
      what_a_loop_throws(loader),
      "a batch that is being joined did not come within 100 ms");
  gate.open();
}

// The worker reads sample 5 ahead while the loop is at its first batch.
TEST(Hanging, WorkerDoesNotHoldUpALoopThatIsLeft) {
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
    while (!dataset.gate.somebody_waits()) {
      std::this_thread::yield();
    }
    break;
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: a loop that was left has waited 100 ms for a worker that reads "
      "sample 5 of the dataset\n");
  dataset.gate.open();
}

// After the error the loader works on: the next loop has workers of its own.
TEST(Hanging, LeavesTheLoaderUsable) {
  const HangingDataset dataset;
  DataLoader loader(dataset, {.num_workers = 1, .timeout = milliseconds(100)});
  what_a_loop_throws(loader);
  dataset.gate.open();

  EXPECT_EQ(read_all(loader).size(), 20);
}

}  // namespace
}  // namespace accelerate
