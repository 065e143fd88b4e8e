// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/large_copies.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "checkpoint/page_filler.h"

namespace accelerate {
namespace {

constexpr std::byte kUntouched{0xA5};
constexpr std::int64_t kElements = 3'000'001;  // 12 MB, for two threads

TEST(CopyBypassingCaches, CopiesExactlyTheBytesAtAnyAlignment) {
  std::vector<std::byte> source(1000);
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::byte>(i * 31 + i / 256);
  }
  for (const std::size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 500, 777}) {
    for (const std::size_t to : {0, 1, 16, 63}) {
      for (const std::size_t from : {0, 1, 7, 64}) {
        std::vector<std::byte> target(1000, kUntouched);
        copy_bypassing_caches(target.data() + to, source.data() + from, bytes);
        std::vector<std::byte> expected(1000, kUntouched);
        std::copy_n(source.begin() + from, bytes, expected.begin() + to);
        ASSERT_EQ(target, expected)
            << bytes << " bytes to " << to << " from " << from;
      }
    }
  }
}

TEST(ForEachPageRange, CoversEveryByteOnce) {
  const std::size_t bytes = (std::size_t{40} << 20) + 123;
  std::mutex mutex;
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for_each_page_range(
      bytes, [&](const std::size_t begin, const std::size_t end) {
        const std::scoped_lock lock(mutex);
        parts.emplace_back(begin, end);
      });
  std::ranges::sort(parts);
  std::size_t reached = 0;
  for (const auto& [begin, end] : parts) {
    EXPECT_EQ(begin, reached);
    EXPECT_EQ(begin % page_bytes(), 0U);
    reached = end;
  }
  EXPECT_EQ(reached, bytes);
}

TEST(CopyLarge, EqualsCopy) {
  const at::Tensor source = at::rand({kElements});
  struct Case {
    const char* name;
    at::Tensor to;
    at::Tensor from;
  };
  const std::vector<Case> cases{
      {"same type and shape", at::zeros({kElements}), source},
      {"small", at::zeros({3}), source.slice(0, 0, 3)},
      {"a slice",
       at::zeros({kElements + 5}).slice(0, 3, kElements + 3),
       source},
      {"different type", at::zeros({kElements}, at::kDouble), source},
      {"not contiguous", at::zeros({kElements, 2}).select(1, 0), source},
      {"broadcast", at::zeros({kElements}), at::full({1}, 2.0)},
      {"empty", at::zeros({0}), source.slice(0, 0, 0)},
  };
  for (const auto& [name, to, from] : cases) {
    copy_large(to, from);
    EXPECT_TRUE(to.equal(from.to(to.scalar_type()).expand_as(to))) << name;
  }
  EXPECT_THROW(copy_large(at::zeros({2}), source), c10::Error);
}

TEST(CopyLarge, IsDetectedByAnAutogradGraphWithTheOldValues) {
  at::Tensor weight = at::rand({kElements}).requires_grad_();
  const at::Tensor loss = weight.square().sum();
  {
    const at::NoGradGuard guard;
    copy_large(weight, at::zeros({kElements}));
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace accelerate
