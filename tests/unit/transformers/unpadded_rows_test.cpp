// SPDX-License-Identifier: Apache-2.0
// When layers leave padding out: what is known of a mask, and what follows.
#include <set>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "device/fused_blocks.h"
#include "device/host_copies.h"
#include "support/fake_device.h"
#include "transformers/model_recorder.h"

namespace transformers {
namespace {

using accelerate::host_copy_of;
using accelerate::remember_host_copy;

TEST(HostCopies, AreKnownWhileNeitherChanges) {
  at::Tensor there = at::ones({2, 3}, at::kLong);
  at::Tensor here = at::ones({2, 3}, at::kLong);
  EXPECT_FALSE(host_copy_of(there).defined());

  remember_host_copy(there, here);
  EXPECT_TRUE(host_copy_of(there).is_same(here));
  EXPECT_FALSE(host_copy_of(there.clone()).defined());

  there[0][0] = 5;
  EXPECT_FALSE(host_copy_of(there).defined());
  remember_host_copy(there, here);
  EXPECT_TRUE(host_copy_of(there).is_same(here));
  here[0][0] = 5;
  EXPECT_FALSE(host_copy_of(there).defined());
}

TEST(HostCopies, AreLetGoWithTheirTensors) {
  at::Tensor here = at::ones({2, 3}, at::kLong);
  for (int i = 0; i < 1000; ++i) {
    remember_host_copy(at::ones({2, 3}, at::kLong), here);
  }
  // Those of the last sweep at most, and this one.
  EXPECT_LT(here.use_count(), 200);
}

// Rows of `lengths` tokens, padded to the longest, with their host copy.
at::Tensor mask_of(const std::vector<std::int64_t>& lengths) {
  const auto all = at::tensor(lengths, at::kLong);
  const auto mask = at::arange(all.max().item<std::int64_t>())
                        .unsqueeze(0)
                        .lt(all.unsqueeze(1))
                        .to(at::kLong);
  remember_host_copy(mask, mask.clone());
  return mask;
}

TEST(UnpaddedRows, HoldAllTokensInAFewNumbers) {
  std::set<std::int64_t> numbers;
  for (std::int64_t length = 1; length <= 64; ++length) {
    const std::vector<std::int64_t> lengths(32, length);
    const std::int64_t tokens = 32 * length;
    const std::int64_t rows = unpadded_rows(mask_of(lengths), 32 * 128);
    EXPECT_GE(rows, tokens);
    EXPECT_LE(rows, tokens + std::max<std::int64_t>(64, tokens / 4));
    numbers.insert(rows);
  }
  EXPECT_LE(numbers.size(), 30U);
}

TEST(UnpaddedRows, NothingIsMovedForLittleOrUnknown) {
  const auto mask = mask_of({100, 20});
  EXPECT_EQ(unpadded_rows(mask, 256), 128);
  // A tenth at least.
  EXPECT_EQ(unpadded_rows(mask, 141), 0);
  EXPECT_EQ(unpadded_rows(mask_of({100, 100}), 200), 0);
  EXPECT_EQ(unpadded_rows(mask.clone(), 256), 0);
}

TEST(UnpaddedRows, AHiddenFirstTokenStaysWhereItIs) {
  const auto left = mask_of({100, 20}).flip(1).contiguous();
  remember_host_copy(left, left.clone());
  EXPECT_EQ(unpadded_rows(left, 256), 0);
  const auto none = mask_of({100, 0});
  EXPECT_EQ(unpadded_rows(none, 256), 0);
}

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() {
    blocks_.refresh = [] {};
    accelerate::set_fused_blocks(&blocks_);
  }
  ~RecorderTest() override { accelerate::set_fused_blocks(nullptr); }

  // What the model is asked to compute.
  ModelInputs asked(const at::Tensor& mask, const Padding& padding) {
    ModelInputs inputs;
    inputs.input_ids = at::ones_like(mask);
    inputs.attention_mask = mask;
    ModelInputs seen;
    recorder_.run(inputs, padding, [&](const ModelInputs& in) {
      seen = in;
      ModelResult result;
      result.loss = at::zeros({});
      return result;
    });
    return seen;
  }

 private:
  accelerate::FakeDevice gpu_{c10::kCPU};
  accelerate::FusedBlocks blocks_ = {};
  torch::nn::Linear model_{1, 1};
  ModelRecorder recorder_{*model_};
};

TEST_F(RecorderTest, ShortBatchesWithPaddingAreUnpadded) {
  const Padding padding = {.most_tokens = 512, .can_unpad = true};
  const ModelInputs in = asked(mask_of({100, 20}), padding);
  EXPECT_EQ(in.unpadded_rows, 128);
  EXPECT_EQ(in.tokens(), 128);
  EXPECT_EQ(in.attention_mask.sum().item<std::int64_t>(), 120);

  EXPECT_EQ(asked(mask_of({100, 20}), {.most_tokens = 512}).unpadded_rows, 0);
  EXPECT_EQ(asked(mask_of({150, 20}), padding).unpadded_rows, 0);
  EXPECT_EQ(asked(mask_of({100, 100}), padding).unpadded_rows, 0);
}

}  // namespace
}  // namespace transformers
