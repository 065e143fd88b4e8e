// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/page_filler.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "checkpoint/fresh_memory.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

std::vector<std::byte> numbered_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 4096);
  }
  return bytes;
}

class Filling : public testing::Test {
 protected:
  void SetUp() override {
    if (!filler_) {
      GTEST_SKIP() << "the system does not allow filling pages (userfaultfd)";
    }
  }

  const std::size_t page_ = page_bytes();
  FreshMemory memory_{64 * page_, "for a test", ""};
  // The filler does not cover the last pages.
  std::unique_ptr<PageFiller> filler_ =
      PageFiller::over(memory_.data(), 60 * page_);
};

TEST_F(Filling, FillsPagesAndZeroesTheRestOfTheLast) {
  // From an unaligned address, ending in the middle of a page.
  const auto source = numbered_bytes(5 * page_ + 123);
  ASSERT_TRUE(filler_->fill(
      memory_.data() + page_, source.data() + 1, source.size() - 1));
  EXPECT_TRUE(
      std::equal(source.begin() + 1, source.end(), memory_.data() + page_));
  EXPECT_EQ(memory_.data()[page_ + source.size()], std::byte{0});

  EXPECT_TRUE(filler_->covers(memory_.data()));
  EXPECT_FALSE(filler_->covers(memory_.data() + 60 * page_));
  memory_.data()[60 * page_] = std::byte{1};

  // Pages that were not filled are ordinary fresh memory again.
  filler_.reset();
  EXPECT_EQ(memory_.data()[0], std::byte{0});
}

TEST_F(Filling, FailsForTouchedMemoryAndUnblocksIt) {
  const auto source = numbered_bytes(2 * page_);
  ASSERT_TRUE(filler_->fill(memory_.data(), source.data(), page_));
  EXPECT_FALSE(filler_->fill(memory_.data(), source.data(), 2 * page_));
  memory_.data()[page_] = std::byte{7};
  EXPECT_FALSE(filler_->fill(memory_.data() + 3 * page_, source.data(), page_));
}

TEST_F(Filling, SurvivesAnUnreadableSource) {
  const TemporaryDirectory folder;
  const auto path = folder.write("source", std::string(3 * page_, 'a'));
  const MappedFile source(path, MappedFile::Mode::read_only);
  // Reading a page past the end of a file kills the process.
  std::filesystem::resize_file(path, page_);
  EXPECT_FALSE(filler_->fill(memory_.data(), source.data(), 3 * page_));
  memory_.data()[2 * page_] = std::byte{7};
}

TEST_F(Filling, WorksFromSeveralThreads) {
  const auto source = numbered_bytes(60 * page_);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t at = t * page_; at < source.size(); at += 3 * page_) {
        EXPECT_TRUE(
            filler_->fill(memory_.data() + at, source.data() + at, page_));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(std::equal(source.begin(), source.end(), memory_.data()));
}

}  // namespace
}  // namespace accelerate
