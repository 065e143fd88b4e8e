// SPDX-License-Identifier: Apache-2.0
// When models use fused blocks: as their policy says, whatever the thread's
// autocast state. The blocks of the fake device count their calls.
#include <map>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/autocast.h"
#include "accelerate/autocast_module.h"
#include "device/fused_blocks.h"
#include "support/fake_device.h"
#include "transformers/transformers.h"
#include "unit/transformers/tiny_models.h"

namespace transformers {
namespace {

using accelerate::AutocastModule;
using accelerate::AutocastPolicy;
using accelerate::FusedBlocks;
using accelerate::Precision;
using accelerate::TensorMap;

std::map<std::string, int> calls;

// The operations that the models below use.
FusedBlocks counting_blocks() {
  FusedBlocks blocks = {};
  blocks.supports_encoder_block = [](const auto& options, std::int64_t) {
    ++calls["supports"];
    return options.activation == accelerate::ActivationKind::gelu_erf;
  };
  blocks.supports_decoder_block = [](const auto& options, std::int64_t) {
    ++calls["supports"];
    return options.positions == accelerate::PositionKind::learned;
  };
  blocks.supports_unpadding = [](std::int64_t) { return false; };
  blocks.supports_length = [](std::int64_t tokens) { return tokens >= 8; };
  blocks.encoder_block =
      [](const at::Tensor& x, const auto&, const auto&, const auto&) {
        ++calls["encoder"];
        return x;
      };
  blocks.decoder_block =
      [](const at::Tensor& x, const auto&, const auto&, const auto&) {
        ++calls["decoder"];
        return x;
      };
  blocks.embedding =
      [](const at::Tensor& table, const at::Tensor& ids, std::int64_t) {
        ++calls["embedding"];
        return at::embedding(table, ids);
      };
  blocks.normalize = [](const at::Tensor& x,
                        const at::Tensor& weight,
                        const at::Tensor& shift,
                        double eps) {
    ++calls["normalize"];
    return at::layer_norm(x, weight.sizes(), weight, shift, eps);
  };
  blocks.summed_embedding = [](const auto&) { return at::Tensor(); };
  blocks.linear = [](const at::Tensor& x,
                     const at::Tensor& weight,
                     const at::Tensor& bias) {
    ++calls["linear"];
    return at::linear(x, weight, bias);
  };
  return blocks;
}

class BlockChoiceTest : public testing::Test {
 protected:
  BlockChoiceTest() {
    gpu_.blocks = &blocks_;
    calls.clear();
  }

  template <typename Model>
  static void set_policy(
      const Model& model, const std::optional<AutocastPolicy>& policy) {
    dynamic_cast<AutocastModule&>(*model.module()).set_autocast(policy);
  }

  // Calls the model in evaluation mode, and returns how often it used blocks.
  template <typename Model>
  static int blocks_used_by(const Model& model, std::int64_t tokens = 8) {
    model.module()->eval();
    const int before = calls["encoder"] + calls["decoder"];
    model(TensorMap{{"input_ids", at::ones({2, tokens}, at::kLong)}});
    return calls["encoder"] + calls["decoder"] - before;
  }

 private:
  FusedBlocks blocks_ = counting_blocks();
  accelerate::FakeDevice gpu_{c10::kCPU};
};

TEST_F(BlockChoiceTest, IsTheReferencePathWithoutAPolicy) {
  const auto model = AutoModelForTokenClassification::from_config(tiny_bert());
  const accelerate::AutocastGuard guard(at::kCPU, Precision::bf16);

  EXPECT_EQ(blocks_used_by(model), 0);
  EXPECT_TRUE(calls["embedding"] == 0 && calls["normalize"] == 0);
}

TEST_F(BlockChoiceTest, FollowsThePolicy) {
  const auto model = AutoModelForTokenClassification::from_config(tiny_bert());
  const int layers = static_cast<int>(tiny_bert().num_hidden_layers);

  set_policy(model, AutocastPolicy{c10::kCPU, Precision::bf16});
  EXPECT_EQ(blocks_used_by(model), layers);
  EXPECT_GT(calls["embedding"], 0);
  EXPECT_GT(calls["normalize"], 0);

  for (const auto& policy : std::vector<std::optional<AutocastPolicy>>{
           AutocastPolicy{c10::kCPU, Precision::no},
           AutocastPolicy{c10::kCPU, Precision::bf16, {.enabled = false}},
           std::nullopt}) {
    set_policy(model, policy);
    EXPECT_EQ(blocks_used_by(model), 0);
  }
}

TEST_F(BlockChoiceTest, IsMadeOnceAndNotInEachCall) {
  const auto model = AutoModelForTokenClassification::from_config(tiny_bert());
  set_policy(model, AutocastPolicy{c10::kCPU, Precision::bf16});
  const int asked = calls["supports"];
  EXPECT_EQ(asked, tiny_bert().num_hidden_layers);

  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(blocks_used_by(model), 0);
  }

  EXPECT_EQ(calls["supports"], asked);
}

TEST_F(BlockChoiceTest, DependsOnWhatABlockComputes) {
  BertConfig config = tiny_bert();
  config.hidden_act = "relu";
  const auto encoder = AutoModelForTokenClassification::from_config(config);
  set_policy(encoder, AutocastPolicy{c10::kCPU, Precision::bf16});
  EXPECT_EQ(blocks_used_by(encoder), 0);
  EXPECT_GT(calls["normalize"], 0);

  const auto decoder = AutoModelForCausalLM::from_config(tiny_gpt2());
  set_policy(decoder, AutocastPolicy{c10::kCPU, Precision::bf16});
  EXPECT_EQ(blocks_used_by(decoder), tiny_gpt2().n_layer);
}

TEST_F(BlockChoiceTest, IsTheReferencePathForShortRowsAndOtherTypes) {
  const auto model = AutoModelForTokenClassification::from_config(tiny_bert());
  set_policy(model, AutocastPolicy{c10::kCPU, Precision::bf16});
  EXPECT_EQ(blocks_used_by(model, 7), 0);

  // Fused blocks need fp32 parameters.
  model.module()->to(at::kBFloat16);
  const int embeddings = calls["embedding"];
  EXPECT_EQ(blocks_used_by(model), 0);
  EXPECT_EQ(calls["embedding"], embeddings);
}

}  // namespace
}  // namespace transformers
