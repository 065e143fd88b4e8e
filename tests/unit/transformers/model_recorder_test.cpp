// SPDX-License-Identifier: Apache-2.0
// Captured steps of models. The fake device replays graphs on the CPU.
#include "transformers/model_recorder.h"

#include <set>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "support/fake_device.h"

namespace transformers {
namespace {

struct LengthCase {
  std::int64_t tokens;
  std::int64_t max_tokens;
  std::int64_t padded;
};

TEST(PaddedLength, GrowsInStepsOfAnEighthToAQuarter) {
  for (const auto& [tokens, max_tokens, padded] : {
           LengthCase{1, 512, 8},
           LengthCase{8, 512, 8},
           LengthCase{20, 512, 24},
           LengthCase{33, 512, 40},
           LengthCase{64, 512, 64},
           LengthCase{65, 512, 80},
           LengthCase{128, 512, 128},
           LengthCase{129, 512, 160},
           LengthCase{300, 512, 320},
           LengthCase{512, 512, 512},
           // The length is never greater than the number of the model's
           // positions, and never less than the number of tokens.
           LengthCase{97, 100, 97},
           LengthCase{90, 100, 96},
           LengthCase{5, 4, 5},
       }) {
    EXPECT_EQ(padded_length(tokens, max_tokens), padded) << tokens;
  }
}

TEST(PaddedLength, HasOnlyAFewValues) {
  std::set<std::int64_t> lengths;
  std::int64_t before = 0;
  for (std::int64_t tokens = 1; tokens <= 512; ++tokens) {
    const std::int64_t length = padded_length(tokens, 512);
    EXPECT_GE(length, tokens);
    EXPECT_GE(length, before);
    EXPECT_LE(length, std::max<std::int64_t>(8, tokens + tokens / 4 + 8));
    before = length;
    lengths.insert(length);
  }
  EXPECT_LE(lengths.size(), 20U);
}

ModelInputs batch(std::int64_t tokens) {
  ModelInputs inputs;
  inputs.input_ids = at::arange(2 * tokens).view({2, tokens});
  inputs.attention_mask = at::ones({2, tokens}, at::kLong);
  inputs.labels = at::tensor({0.5, 2.0});
  return inputs;
}

TEST(Padded, MasksTheAddedTokens) {
  ModelInputs inputs = batch(3);
  inputs.token_type_ids = at::ones({2, 3}, at::kLong);

  const ModelInputs longer = padded(inputs, 5, {.id = 7});

  EXPECT_TRUE(longer.input_ids.equal(
      at::tensor({0, 1, 2, 7, 7, 3, 4, 5, 7, 7}, at::kLong).view({2, 5})));
  EXPECT_TRUE(longer.attention_mask.equal(
      at::tensor({1, 1, 1, 0, 0, 1, 1, 1, 0, 0}, at::kLong).view({2, 5})));
  EXPECT_EQ(longer.token_type_ids.size(1), 5);
  EXPECT_FALSE(longer.position_ids.defined());
  EXPECT_TRUE(longer.labels.is_same(inputs.labels));
}

// A model that predicts the labels from the masked sum of the ids.
struct SmallModel : torch::nn::Module {
  SmallModel() {
    inner = register_module("inner", torch::nn::Linear(1, 1));
    torch::NoGradGuard no_grad;
    inner->weight.fill_(0.25);
    inner->bias.fill_(1.0);
  }

  ModelResult compute(const ModelInputs& inputs) {
    ++computed;
    const at::Tensor sums = inputs.input_ids.mul(inputs.attention_mask)
                                .sum(1, /*keepdim=*/true)
                                .to(at::kFloat);
    ModelResult result;
    result.logits = inner(sums).squeeze(1);
    result.loss = result.logits.sub(inputs.labels).pow(2).mean();
    return result;
  }

  torch::nn::Linear inner{nullptr};
  int computed = 0;
};

class ModelRecorderTest : public testing::Test {
 protected:
  double step(const ModelInputs& inputs, const Padding& padding = {}) {
    model.inner->zero_grad();
    const ModelResult result =
        recorder.run(inputs, padding, [&](const ModelInputs& in) {
          return model.compute(in);
        });
    result.loss.backward();
    return result.loss.item<double>();
  }

  double expected(const ModelInputs& inputs) {
    const double loss = model.compute(inputs).loss.item<double>();
    --model.computed;
    return loss;
  }

  accelerate::FakeDevice gpu{c10::kCPU};
  SmallModel model;
  ModelRecorder recorder{model};
};

TEST_F(ModelRecorderTest, SimilarLengthsShareAGraph) {
  const Padding padding{.max_tokens = 128, .id = 9};
  for (std::int64_t tokens = 17; tokens <= 24; ++tokens) {
    const ModelInputs inputs = batch(tokens);
    EXPECT_DOUBLE_EQ(step(inputs, padding), expected(inputs)) << tokens;
  }

  EXPECT_EQ(recorder.num_graphs(), 1);
  EXPECT_EQ(recorder.num_replays(), 7);
  EXPECT_EQ(model.computed, 2);
}

TEST_F(ModelRecorderTest, DoesNotPadWithoutAMask) {
  const Padding padding{.max_tokens = 128, .id = 9};
  for (std::int64_t tokens = 17; tokens <= 20; ++tokens) {
    ModelInputs inputs = batch(tokens);
    inputs.attention_mask = at::Tensor();
    for (int i = 0; i < 2; ++i) {
      recorder
          .run(
              inputs,
              padding,
              [&](const ModelInputs& in) {
                EXPECT_EQ(in.input_ids.size(1), tokens);
                ModelInputs masked = in;
                masked.attention_mask = at::ones_like(in.input_ids);
                return model.compute(masked);
              })
          .loss.backward();
    }
  }
  EXPECT_EQ(recorder.num_graphs(), 4);
}

// Padding would change the last bits of sums.
TEST_F(ModelRecorderTest, DoesNotPadInDeterministicMode) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  for (int i = 0; i < 3; ++i) {
    step(batch(17), {.max_tokens = 128});
    step(batch(18), {.max_tokens = 128});
  }
  at::globalContext().setDeterministicAlgorithms(false, false);

  EXPECT_EQ(recorder.num_graphs(), 2);
}

TEST_F(ModelRecorderTest, ModesAndFrozenParametersHaveTheirOwnGraphs) {
  const ModelInputs inputs = batch(4);
  const auto capture = [&] {
    for (int i = 0; i < 2; ++i) {
      EXPECT_DOUBLE_EQ(step(inputs), expected(inputs));
    }
    return recorder.num_graphs();
  };

  EXPECT_EQ(capture(), 1);
  model.inner->eval();
  EXPECT_EQ(capture(), 2);
  model.inner->bias.set_requires_grad(false);
  EXPECT_EQ(capture(), 3);
  model.inner->bias.set_requires_grad(true);
  model.inner->train();
  EXPECT_EQ(capture(), 3);
}

}  // namespace
}  // namespace transformers
