// SPDX-License-Identifier: Apache-2.0
// Tests when models use fused blocks: the model's policy decides, regardless of
// the thread's autocast state. The blocks of the fake device count their calls.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/autocast.h"
#include "accelerate/autocast_module.h"
#include "accelerate/error.h"
#include "accelerate/recordable_module.h"
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
  blocks.linear_cross_entropy = [](const at::Tensor& hidden,
                                   const at::Tensor& weight,
                                   const at::Tensor& labels) {
    ++calls["loss"];
    return at::cross_entropy_loss(
        at::linear(hidden, weight).flatten(0, 1).to(at::kFloat), labels);
  };
  blocks.before_replay = [] {};
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

  FusedBlocks blocks_ = counting_blocks();

 private:
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

// What the fused function computes, in plain operations.
at::Tensor plain_sum(const accelerate::SummedEmbedding& in) {
  ++calls["summed"];
  at::Tensor sum = at::embedding(in.words, in.ids, in.padding_id);
  sum = sum +
        (in.position_ids.defined()
             ? at::embedding(in.positions, in.position_ids, in.padding_position)
             : in.positions.slice(0, 0, in.ids.size(1)));
  if (in.types.defined()) {
    sum = sum + (in.type_ids.defined() ? at::embedding(in.types, in.type_ids)
                                       : in.types.select(0, 0));
  }
  return at::layer_norm(sum, in.weight.sizes(), in.weight, in.shift, in.eps);
}

template <typename Model>
void expect_fused_embeddings(const Model& model, const TensorMap& batch) {
  const auto gradients_with = [&](const AutocastPolicy& policy) {
    dynamic_cast<AutocastModule&>(*model.module()).set_autocast(policy);
    model.module()->eval();
    model.module()->zero_grad();
    const at::Tensor embedded =
        model(batch, {.output_hidden_states = true}).hidden_states.front();
    embedded.mul(at::linspace(-1, 1, embedded.numel()).view_as(embedded))
        .sum()
        .backward();
    std::vector<at::Tensor> gradients;
    for (const auto& item : model.module()->named_parameters()) {
      if (item.key().find("embeddings.") != std::string::npos) {
        gradients.push_back(item.value().grad().clone());
      }
    }
    return gradients;
  };
  const int before = calls["summed"];
  const auto fused = gradients_with({c10::kCPU, Precision::bf16});
  EXPECT_EQ(calls["summed"], before + 1);
  const auto reference = gradients_with({c10::kCPU, Precision::no});
  EXPECT_EQ(calls["summed"], before + 1);

  ASSERT_EQ(fused.size(), reference.size());
  for (std::size_t i = 0; i < fused.size(); ++i) {
    EXPECT_TRUE(at::allclose(fused[i], reference[i], 1e-4, 1e-5)) << i;
  }
}

TEST_F(BlockChoiceTest, EncodersDescribeTheirEmbeddingsToTheFusedFunction) {
  blocks_.summed_embedding = plain_sum;
  RobertaConfig roberta;
  roberta.vocab_size = 50;
  roberta.hidden_size = 16;
  roberta.num_hidden_layers = 1;
  roberta.num_attention_heads = 2;
  roberta.intermediate_size = 24;
  roberta.max_position_embeddings = 20;
  DistilBertConfig distilbert;
  distilbert.vocab_size = 50;
  distilbert.dim = 16;
  distilbert.n_layers = 1;
  distilbert.n_heads = 2;
  distilbert.hidden_dim = 24;
  distilbert.max_position_embeddings = 20;
  // The second row is padded on the left with RoBERTa's padding id.
  at::Tensor ids = at::arange(2, 18).view({2, 8});
  ids.select(0, 1).slice(0, 0, 3).fill_(1);
  const TensorMap batch = {{"input_ids", ids}};

  const auto bert = AutoModel::from_config(tiny_bert());
  expect_fused_embeddings(bert, batch);
  expect_fused_embeddings(AutoModel::from_config(roberta), batch);
  expect_fused_embeddings(AutoModel::from_config(distilbert), batch);
  expect_fused_embeddings(
      bert,
      {{"input_ids", ids},
       {"token_type_ids", ids.remainder(2)},
       {"position_ids", at::arange(8).flip(0).unsqueeze(0)}});
}

class LogitsOfAFusedLoss : public BlockChoiceTest {
 protected:
  LogitsOfAFusedLoss() {
    set_policy(model, AutocastPolicy{c10::kCPU, Precision::bf16});
  }

  static GPT2Config config() {
    GPT2Config config = tiny_gpt2();
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0;
    return config;
  }

  static TensorMap batch_of(std::int64_t tokens) {
    const auto ids = at::randint(1, 50, {2, tokens}, at::kLong);
    return {{"input_ids", ids}, {"labels", ids}};
  }

  // The logits and their gradient for the first parameter.
  static std::pair<at::Tensor, at::Tensor> results_of(
      const CausalLMOutput& outputs, const at::Tensor& parameter) {
    parameter.mutable_grad() = at::Tensor();
    const at::Tensor logits = outputs.logits.detach();
    (outputs.loss + outputs.logits.pow(2).mean()).backward();
    return {logits, parameter.grad()};
  }

  AutoModelForCausalLM model = AutoModelForCausalLM::from_config(config());
  at::Tensor embedding = model->parameters().front();
};

TEST_F(LogitsOfAFusedLoss, AreComputedWhenTheyAreRead) {
  model->train();
  const TensorMap batch = batch_of(12);
  const auto expected =
      results_of(model(batch, {.output_logits = true}), embedding);
  const auto outputs = model(batch);

  EXPECT_EQ(calls["loss"], 2);
  EXPECT_EQ(outputs.logits.device(), at::Device(at::kCPU));
  EXPECT_EQ(outputs.logits.sizes(), expected.first.sizes());
  EXPECT_EQ(outputs.logits.scalar_type(), at::kFloat);
  const auto found = results_of(outputs, embedding);
  EXPECT_TRUE(found.first.equal(expected.first));
  // The gradients of the loss and of the logits are added in bf16 or in fp32.
  EXPECT_LT(
      (found.second - expected.second).norm().item<float>(),
      0.01 * expected.second.norm().item<float>());
}

TEST_F(LogitsOfAFusedLoss, AreRefusedAfterTheWeightsChanged) {
  model->train();
  const auto read = model(batch_of(12));
  const auto unread = model(batch_of(12));
  const at::Tensor before = read.logits.clone();
  {
    const at::NoGradGuard no_grad;
    embedding.mul_(2);
  }

  EXPECT_TRUE(read.logits.equal(before));
  EXPECT_THAT(
      [&] { return unread.logits.argmax(-1); },
      testing::ThrowsMessage<accelerate::StateError>(
          "the logits were read for the first time after the weights of the "
          "model had changed"));
}

TEST_F(LogitsOfAFusedLoss, AreThoseOfTheBatchInACapturedStep) {
  model->train();
  dynamic_cast<accelerate::RecordableModule&>(*model.module())
      .set_record_policy({.enabled = true});
  for (std::int64_t tokens = 9; tokens <= 13; ++tokens) {
    const TensorMap batch = batch_of(tokens);
    model->eval();
    const at::Tensor expected = model(batch).logits;
    model->train();
    const auto outputs = model(batch);

    ASSERT_EQ(outputs.logits.sizes(), expected.sizes());
    const auto [logits, gradient] = results_of(outputs, embedding);
    EXPECT_TRUE(at::allclose(logits, expected, 1e-2, 1e-2)) << tokens;
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    EXPECT_GT(gradient.abs().sum().item<float>(), 0);
  }
  EXPECT_EQ(model->recorded_steps(), 4);
}

}  // namespace
}  // namespace transformers
