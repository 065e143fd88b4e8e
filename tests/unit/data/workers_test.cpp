// SPDX-License-Identifier: Apache-2.0
// Worker threads: order, errors, and cleanup.
#include <atomic>
#include <filesystem>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "support/counting_datasets.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// A joined thread may still be listed for a moment.
bool has_threads(std::ptrdiff_t count) {
  for (int i = 0; i < 1000; ++i) {
    if (threads_of_this_process() == count) {
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

struct Throwing {
  std::int64_t bad = 5;
  void (*raise)() = nullptr;

  std::int64_t size() const { return 20; }
  std::int64_t get(std::int64_t index) const {
    if (index == bad) {
      raise();
    }
    return index;
  }
};

struct ThrowingStream {
  std::int64_t bad = 5;
  std::int64_t index = 0;

  std::optional<std::int64_t> next() {
    if (index == bad) {
      throw std::runtime_error("connection lost");
    }
    return index++;
  }
};

class Workers : public testing::TestWithParam<std::int64_t> {};

TEST_P(Workers, KeepTheOrder) {
  DataLoader loader(
      Counting{997}, {.batch_size = 10, .num_workers = GetParam()});
  std::int64_t next = 0;

  for (at::Tensor& batch : loader) {
    for (const std::int64_t index : to_indices(batch)) {
      EXPECT_EQ(index, next++);
    }
  }

  EXPECT_EQ(next, 997);
}

TEST_P(Workers, ReportTheSampleThatThrew) {
  DataLoader loader(
      Throwing{.raise = [] { throw std::runtime_error("torn page"); }},
      {.batch_size = 2, .num_workers = GetParam()});
  int batches = 0;

  EXPECT_EQ(
      message_of<Error>([&] {
        for (auto& batch : loader) {
          static_cast<void>(batch);
          ++batches;
        }
      }),
      "sample 5 of the dataset: torn page");
  EXPECT_EQ(batches, 2);
}

TEST_P(Workers, KeepTheTypeAndHintOfErrors) {
  DataLoader loader(
      Throwing{.raise = [] { throw FormatError("bad header", "fetch it"); }},
      {.batch_size = 2, .num_workers = GetParam()});

  try {
    read_all(loader);
    FAIL() << "nothing was thrown";
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "sample 5 of the dataset: bad header");
    EXPECT_EQ(error.hint(), "fetch it");
  }
}

TEST_P(Workers, KeepLibTorchsErrors) {
  DataLoader loader(
      Throwing{.raise = [] { TORCH_CHECK(false, "no such plane"); }},
      {.batch_size = 2, .num_workers = GetParam()});

  try {
    read_all(loader);
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find("no such plane"), std::string::npos) << text;
    EXPECT_NE(text.find("sample 5 of the dataset"), std::string::npos) << text;
  }
}

TEST_P(Workers, NestOtherExceptions) {
  DataLoader loader(
      Throwing{.raise = [] { throw std::out_of_range("row 9"); }},
      {.num_workers = GetParam()});

  try {
    read_all(loader);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
}

TEST_P(Workers, ReportTheBatchThatCannotBeCollated) {
  DataLoader loader(
      Counting{4},
      {.batch_size = 2,
       .num_workers = GetParam(),
       .collate = [](std::vector<std::int64_t>) -> at::Tensor {
         throw ArgumentError("ragged");
       }});

  EXPECT_EQ(
      message_of<ArgumentError>([&] { read_all(loader); }),
      "the batch of samples 0, 1: ragged");
}

// Samples read before the error still arrive.
TEST_P(Workers, ReportTheSampleOfAStreamThatThrew) {
  DataLoader loader(
      ThrowingStream(), {.batch_size = 2, .num_workers = GetParam()});
  int batches = 0;

  EXPECT_EQ(
      message_of<Error>([&] {
        for (auto& batch : loader) {
          static_cast<void>(batch);
          EXPECT_FALSE(loader.end_of_dataloader());
          ++batches;
        }
      }),
      "sample 5 of the dataset: connection lost");
  EXPECT_EQ(batches, 2);
}

TEST_P(Workers, EndWithTheLoop) {
  const auto before = threads_of_this_process();
  DataLoader loader(
      Counting{100}, {.batch_size = 2, .num_workers = GetParam()});

  for (int times = 0; times < 2; ++times) {
    for (auto& batch : loader) {
      static_cast<void>(batch);
      EXPECT_EQ(threads_of_this_process(), before + GetParam());
      break;
    }
    EXPECT_TRUE(has_threads(before));
  }
  static_cast<void>(read_all(loader));
  EXPECT_TRUE(has_threads(before));
  EXPECT_THROW(
      for (auto& batch : loader) {
        static_cast<void>(batch);
        throw std::runtime_error("in the user's loop");
      },
      std::runtime_error);
  EXPECT_TRUE(has_threads(before));
}

TEST_P(Workers, EndWithAnErrorInTheDataset) {
  const auto before = threads_of_this_process();
  DataLoader loader(
      Throwing{.raise = [] { throw std::runtime_error("x"); }},
      {.batch_size = 2, .num_workers = GetParam()});

  EXPECT_THROW(read_all(loader), Error);

  EXPECT_TRUE(has_threads(before));
}

INSTANTIATE_TEST_SUITE_P(Count, Workers, testing::Values(0, 1, 2, 4));

// Fails unless two calls of `get` run at the same time.
struct NeedsTwoThreads {
  std::shared_ptr<std::latch> both = std::make_shared<std::latch>(2);

  std::int64_t size() const { return 2; }
  std::int64_t get(std::int64_t index) const {
    both->arrive_and_wait();
    return index;
  }
};

TEST(Workers, ReadAtTheSameTime) {
  DataLoader loader(NeedsTwoThreads(), {.num_workers = 2});

  EXPECT_EQ(read_all(loader).size(), 2);
}

struct Furthest {
  std::shared_ptr<std::atomic<std::int64_t>> read =
      std::make_shared<std::atomic<std::int64_t>>(0);

  std::int64_t size() const { return 1000; }
  std::int64_t get(std::int64_t index) const {
    ++*read;
    return index;
  }
};

TEST(Workers, StayWithinTheirLimit) {
  Furthest dataset;
  DataLoader loader(dataset, {.num_workers = 2, .prefetch_factor = 3});
  std::int64_t taken = 0;

  for (auto& batch : loader) {
    static_cast<void>(batch);
    ++taken;
    ASSERT_LE(dataset.read->load(), taken + 2 * 3);
  }
}

// A batch that is counted during its lifetime.
struct Live {
  static inline std::atomic<std::int64_t> count = 0;

  Live() { ++count; }
  Live(const Live&) { ++count; }
  Live& operator=(const Live&) = default;
  ~Live() { --count; }
};

TEST(Workers, KeepNoMoreBatchesThanAllowed) {
  DataLoader loader(
      Counting{200},
      {.batch_size = 2, .shuffle = true, .num_workers = 2},
      [](const std::vector<std::int64_t>&) { return Live(); });

  for (int epoch = 0; epoch < 10; ++epoch) {
    for (auto& batch : loader) {
      static_cast<void>(batch);
      // Two prefetched batches per worker, one that each worker is reading, and
      // the current batch.
      ASSERT_LE(Live::count.load(), 2 * 2 + 2 + 1);
    }
    ASSERT_EQ(Live::count.load(), 0);
  }
}

}  // namespace
}  // namespace accelerate
