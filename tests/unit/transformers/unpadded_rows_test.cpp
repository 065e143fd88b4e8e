// SPDX-License-Identifier: Apache-2.0
// Tests when the layers skip padding, which depends on the token counts of the
// mask.
#include <set>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "device/token_counts.h"
#include "support/fake_device.h"
#include "transformers/model_recorder.h"

namespace transformers {
namespace {

// Returns a mask with token counts, as a data loader would.
at::Tensor with_counts(const at::Tensor& mask) {
  if (const auto counts = accelerate::count_tokens(mask)) {
    accelerate::attach_token_counts(mask, *counts);
  }
  return mask;
}

// Rows of `lengths` tokens, padded to the longest.
at::Tensor mask_of(const std::vector<std::int64_t>& lengths) {
  const auto all = at::tensor(lengths, at::kLong);
  return with_counts(at::arange(all.max().item<std::int64_t>())
                         .unsqueeze(0)
                         .lt(all.unsqueeze(1))
                         .to(at::kLong));
}

TEST(UnpaddedRows, HaveAFewSizesForAnyNumberOfTokens) {
  std::set<std::int64_t> sizes;
  for (std::int64_t length = 1; length <= 64; ++length) {
    const std::vector<std::int64_t> lengths(32, length);
    const std::int64_t tokens = 32 * length;
    const std::int64_t rows = unpadded_rows(mask_of(lengths), 32 * 128);
    EXPECT_GE(rows, tokens);
    EXPECT_LE(rows, tokens + std::max<std::int64_t>(64, tokens / 4));
    sizes.insert(rows);
  }
  EXPECT_LE(sizes.size(), 30U);
}

TEST(UnpaddedRows, AreNotUsedForLittlePaddingOrAnUnknownMask) {
  const auto mask = mask_of({100, 20});
  EXPECT_EQ(unpadded_rows(mask, 256), 128);
  // At least a tenth must be padding.
  EXPECT_EQ(unpadded_rows(mask, 141), 0);
  EXPECT_EQ(unpadded_rows(mask_of({100, 100}), 200), 0);
  EXPECT_EQ(unpadded_rows(mask.clone(), 256), 0);
}

TEST(UnpaddedRows, AreNotUsedIfAFirstTokenIsMasked) {
  const auto left = with_counts(mask_of({100, 20}).flip(1));
  EXPECT_EQ(unpadded_rows(left, 256), 0);
  const auto none = mask_of({100, 0});
  EXPECT_EQ(unpadded_rows(none, 256), 0);
}

class RecorderTest : public testing::Test {
 protected:
  // Returns the inputs that the model gets.
  ModelInputs inputs_of_model(const at::Tensor& mask, const Padding& padding) {
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
  torch::nn::Linear model_{1, 1};
  ModelRecorder recorder_{*model_};
};

TEST_F(RecorderTest, UnpadsShortBatchesWithPadding) {
  const Padding padding = {.max_tokens = 512, .can_unpad = true};
  const ModelInputs in = inputs_of_model(mask_of({100, 20}), padding);
  EXPECT_EQ(in.unpadded_rows, 128);
  EXPECT_EQ(in.tokens(), 128);
  EXPECT_EQ(in.attention_mask.sum().item<std::int64_t>(), 120);

  EXPECT_EQ(
      inputs_of_model(mask_of({100, 20}), {.max_tokens = 512}).unpadded_rows,
      0);
  EXPECT_EQ(inputs_of_model(mask_of({150, 20}), padding).unpadded_rows, 0);
  EXPECT_EQ(inputs_of_model(mask_of({100, 100}), padding).unpadded_rows, 0);
}

}  // namespace
}  // namespace transformers
