// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "transformers/auto_model.h"
#include "unit/transformers/tiny_models.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::message_of;
using accelerate::TensorMap;
using accelerate::UnsupportedError;

TEST(Models, InitialiseWeightsLikeHuggingFace) {
  torch::manual_seed(1);
  auto config = tiny_bert();
  config.vocab_size = 2000;
  config.initializer_range = 0.05;
  const auto model = AutoModelForMaskedLM::from_config(config);

  for (const auto& [name, parameter] : model->named_parameters()) {
    if (name.ends_with("LayerNorm.weight")) {
      EXPECT_TRUE(parameter.eq(1).all().item<bool>()) << name;
    } else if (parameter.dim() == 1) {
      EXPECT_TRUE(parameter.eq(0).all().item<bool>()) << name;
    } else if (name.ends_with("word_embeddings.weight")) {
      EXPECT_NEAR(parameter.std().item<double>(), 0.05, 0.002);
      EXPECT_EQ(parameter[0].abs().sum().item<double>(), 0.0);
    }
  }
}

// Checks initial values: the weights of norms are 1, biases and the embedding
// of the padding token are 0, and all other weights are normally distributed
// with the config's standard deviation. GPT-2's residual layers have their own
// test.
void expect_initialised(const PreTrainedModel& model, double deviation) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (name.ends_with("bias")) {
      EXPECT_TRUE(parameter.eq(0).all().item<bool>()) << name;
    } else if (parameter.dim() == 1) {
      EXPECT_TRUE(parameter.eq(1).all().item<bool>()) << name;
    } else if (parameter.numel() > 4000 && !name.ends_with("c_proj.weight")) {
      EXPECT_NEAR(parameter.mean().item<double>(), 0, deviation / 10) << name;
      EXPECT_NEAR(parameter.std().item<double>(), deviation, deviation / 10)
          << name;
    }
  }
}

TEST(Models, InitialiseWeightsWithTheConfigsStandardDeviation) {
  torch::manual_seed(2);
  expect_initialised(
      *AutoModelForMaskedLM::from_config(BertConfig{
          .vocab_size = 900,
          .hidden_size = 96,
          .num_hidden_layers = 1,
          .num_attention_heads = 2,
          .intermediate_size = 100,
          .initializer_range = 0.05}),
      0.05);
  const auto roberta = AutoModelForMaskedLM::from_config(RobertaConfig{
      .vocab_size = 900,
      .hidden_size = 96,
      .num_hidden_layers = 1,
      .num_attention_heads = 2,
      .intermediate_size = 100,
      .initializer_range = 0.04});
  expect_initialised(*roberta, 0.04);
  for (const auto& [name, parameter] : roberta->named_parameters()) {
    if (name.ends_with("word_embeddings.weight")) {
      EXPECT_EQ(parameter[1].abs().sum().item<double>(), 0.0);  // The padding.
    }
  }
  expect_initialised(
      *AutoModelForMaskedLM::from_config(DistilBertConfig{
          .vocab_size = 900,
          .n_layers = 1,
          .n_heads = 2,
          .dim = 96,
          .hidden_dim = 100,
          .initializer_range = 0.03}),
      0.03);
  expect_initialised(
      *AutoModelForCausalLM::from_config(GPT2Config{
          .vocab_size = 900, .n_embd = 96, .n_layer = 1, .n_head = 2}),
      0.02);
  LlamaConfig llama;
  llama.vocab_size = 900;
  llama.hidden_size = 96;
  llama.intermediate_size = 100;
  llama.num_hidden_layers = 1;
  llama.num_attention_heads = 2;
  llama.initializer_range = 0.06;
  expect_initialised(*AutoModelForCausalLM::from_config(llama), 0.06);
}

TEST(Models, Gpt2InitialisesResidualLayersWithASmallerDeviation) {
  torch::manual_seed(1);
  auto config = tiny_gpt2();
  config.n_embd = 64;
  config.n_layer = 8;
  const auto model = AutoModelForCausalLM::from_config(config);

  for (const auto& [name, parameter] : model->named_parameters()) {
    if (name.ends_with("c_proj.weight")) {
      EXPECT_NEAR(parameter.std().item<double>(), 0.02 / 4, 0.0005) << name;
    } else if (name.ends_with("c_fc.weight")) {
      EXPECT_NEAR(parameter.std().item<double>(), 0.02, 0.001) << name;
    }
  }
}

TEST(Models, AnEmptyBatchHasNoLoss) {
  const auto check = [](const auto& model, const at::Tensor& labels) {
    model->train();
    const auto result = model(TensorMap{
        {"input_ids", at::empty({0, 6}, at::kLong)}, {"labels", labels}});
    result.loss.backward();

    EXPECT_TRUE(std::isnan(result.loss.template item<double>()));
    EXPECT_EQ(result.logits.size(0), 0);
    for (const auto& [name, parameter] : model->named_parameters()) {
      EXPECT_FALSE(
          parameter.grad().defined() &&
          parameter.grad().any().template item<bool>())
          << name;
    }
  };
  check(
      AutoModelForSequenceClassification::from_config(tiny_bert()),
      at::empty({0}, at::kLong));
  check(
      AutoModelForCausalLM::from_config(tiny_gpt2()),
      at::empty({0, 6}, at::kLong));
}

TEST(Models, UseTheConfigsDropoutRate) {
  torch::manual_seed(3);
  auto config = tiny_bert();
  config.hidden_dropout_prob = 0.25;
  config.attention_probs_dropout_prob = 0;
  config.num_hidden_layers = 0;
  const auto model = AutoModel::from_config(config);
  model->train();
  const TensorMap batch = {
      {"input_ids", at::randint(1, 50, {100, 20}, at::kLong)}};

  const auto hidden = model(batch).last_hidden_state;

  EXPECT_NEAR(hidden.eq(0).to(at::kFloat).mean().item<double>(), 0.25, 0.01);
  model->eval();
  EXPECT_EQ(model(batch).last_hidden_state.eq(0).sum().item<std::int64_t>(), 0);
}

// Measures the dropout rate of attention weights. The remaining weights are
// scaled up, so that their sum is 1 on average.
double attention_rate(const Config& config) {
  torch::manual_seed(4);
  const auto model =
      AutoModel::from_config(config, {.attn_implementation = "eager"});
  model->train();
  const auto weights =
      model(
          {{"input_ids", at::randint(3, 50, {40, 20}, at::kLong)}},
          {.output_attentions = true})
          .attentions.at(0);
  // In a causal model, later tokens have no weight that could be dropped.
  const auto seen = weights.sum(0, true).sum(1, true).ne(0).expand_as(weights);
  EXPECT_NEAR(weights.sum(-1).mean().item<double>(), 1.0, 0.02);
  return weights.masked_select(seen).eq(0).to(at::kFloat).mean().item<double>();
}

TEST(Models, UseTheConfigsAttentionDropoutRate) {
  auto bert = tiny_bert();
  bert.attention_probs_dropout_prob = 0.3;
  EXPECT_NEAR(attention_rate(bert), 0.3, 0.01);
  RobertaConfig roberta{
      .vocab_size = 50,
      .hidden_size = 16,
      .num_hidden_layers = 1,
      .num_attention_heads = 2,
      .intermediate_size = 24,
      .attention_probs_dropout_prob = 0.2,
      .max_position_embeddings = 30};
  EXPECT_NEAR(attention_rate(roberta), 0.2, 0.01);
  EXPECT_NEAR(
      attention_rate(DistilBertConfig{
          .vocab_size = 50,
          .max_position_embeddings = 20,
          .n_layers = 1,
          .n_heads = 2,
          .dim = 16,
          .hidden_dim = 24,
          .attention_dropout = 0.4}),
      0.4,
      0.01);
  auto gpt2 = tiny_gpt2();
  gpt2.attn_pdrop = 0.15;
  EXPECT_NEAR(attention_rate(gpt2), 0.15, 0.01);
  LlamaConfig llama;
  llama.vocab_size = 50;
  llama.hidden_size = 16;
  llama.intermediate_size = 24;
  llama.num_hidden_layers = 1;
  llama.num_attention_heads = 2;
  llama.num_key_value_heads = 2;
  llama.attention_dropout = 0.25;
  EXPECT_NEAR(attention_rate(llama), 0.25, 0.01);
}

TEST(Models, UseTheClassifierDropoutRate) {
  torch::manual_seed(5);
  auto config = tiny_bert();
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  config.classifier_dropout = 0.3;
  config.common.num_labels = 1;
  const auto model = AutoModelForSequenceClassification::from_config(config);
  {
    // Makes the logit depend on a single feature of the pooled token.
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : model->named_parameters()) {
      if (name == "classifier.weight") {
        parameter.zero_();
        parameter.select(1, 3).fill_(1.0);
      }
    }
  }
  model->train();

  const auto logits =
      model({{"input_ids", at::randint(1, 50, {4000, 3}, at::kLong)}}).logits;

  EXPECT_NEAR(logits.eq(0).to(at::kFloat).mean().item<double>(), 0.3, 0.03);
}

TEST(Models, RejectAnAdditiveMask) {
  const auto model = AutoModel::from_config(tiny_bert());
  const auto ids = tiny_batch().at("input_ids");
  const auto call = [&](const at::Tensor& mask) {
    (void)model({{"input_ids", ids}, {"attention_mask", mask}});
  };

  EXPECT_EQ(
      message_of<ArgumentError>([&] { call(at::zeros({2, 1, 6, 6})); }),
      "`attention_mask` has shape [2, 1, 6, 6] and type Float; additive masks "
      "are not supported");
  EXPECT_NO_THROW(call(at::ones({2, 1, 6, 6}, at::kBool)));
  EXPECT_NO_THROW(call(at::ones({2, 6})));
}

/// Gradients of one training step with dropout, from a fixed seed.
std::vector<at::Tensor> gradients(
    const AutoModelForSequenceClassification& model) {
  torch::manual_seed(7);
  model->zero_grad();
  model->train();
  model(tiny_batch()).loss.backward();
  std::vector<at::Tensor> result;
  for (const auto& parameter : model->parameters()) {
    result.push_back(parameter.grad().clone());
  }
  return result;
}

TEST(Models, GradientCheckpointingChangesNoGradient) {
  const auto model =
      AutoModelForSequenceClassification::from_config(tiny_bert());
  const auto expected = gradients(model);

  model->gradient_checkpointing_enable();
  const auto actual = gradients(model);

  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(actual[i].allclose(expected[i], 1e-6, 1e-7)) << i;
  }
}

TEST(Models, GradientCheckpointingWorksWithFrozenEmbeddings) {
  const auto model =
      AutoModelForSequenceClassification::from_config(tiny_bert());
  for (const auto& [name, parameter] : model->named_parameters()) {
    parameter.requires_grad_(name.find("embeddings") == std::string::npos);
  }
  model->gradient_checkpointing_enable();
  model->train();

  model(tiny_batch()).loss.backward();

  for (const auto& [name, parameter] : model->named_parameters()) {
    EXPECT_EQ(parameter.grad().defined(), parameter.requires_grad()) << name;
  }
}

TEST(Models, ReturnHiddenStatesAndAttentionsOnRequest) {
  const auto model = AutoModelForCausalLM::from_config(tiny_gpt2());
  model->eval();
  const TensorMap batch = {{"input_ids", tiny_batch().at("input_ids")}};

  const auto plain = model(batch);
  const auto full =
      model(batch, {.output_hidden_states = true, .output_attentions = true});

  EXPECT_TRUE(plain.hidden_states.empty());
  EXPECT_FALSE(plain.loss.defined());
  ASSERT_EQ(full.hidden_states.size(), 3U);
  ASSERT_EQ(full.attentions.size(), 2U);
  EXPECT_EQ(
      full.attentions[0].sizes(), (std::vector<std::int64_t>{2, 2, 6, 6}));
  EXPECT_TRUE(full.attentions[0].sum(-1).allclose(at::ones({2, 2, 6})));
  EXPECT_TRUE(full.logits.allclose(plain.logits, 1e-5, 1e-6));
}

TEST(Models, ReturnHiddenStatesAndAttentionsIfTheConfigSaysSo) {
  auto config = tiny_gpt2();
  config.common.output_hidden_states = true;
  config.common.output_attentions = true;
  const auto model = AutoModelForCausalLM::from_config(config);
  model->eval();
  const TensorMap batch = {{"input_ids", tiny_batch().at("input_ids")}};

  const auto by_config = model(batch);
  const auto by_call =
      model(batch, {.output_hidden_states = false, .output_attentions = false});

  EXPECT_EQ(by_config.hidden_states.size(), 3U);
  EXPECT_EQ(by_config.attentions.size(), 2U);
  EXPECT_TRUE(by_call.hidden_states.empty());
  EXPECT_TRUE(by_call.attentions.empty());
}

TEST(Models, AcceptEmbeddingsInsteadOfIds) {
  const auto model = AutoModel::from_config(tiny_bert());
  model->eval();
  const auto ids = tiny_batch().at("input_ids");

  const auto words = model->parameters()[0].index({ids});

  EXPECT_TRUE(model({{"inputs_embeds", words}})
                  .last_hidden_state.allclose(
                      model({{"input_ids", ids}}).last_hidden_state));
}

struct BadBatch {
  const char* name;
  TensorMap batch;
  const char* message;
};

class BadBatches : public testing::TestWithParam<BadBatch> {};

TEST_P(BadBatches, AreRejected) {
  const auto model =
      AutoModelForSequenceClassification::from_config(tiny_bert());

  EXPECT_EQ(
      message_of<ArgumentError>([&] { (void)model(GetParam().batch); }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    BadBatches,
    testing::Values(
        BadBatch{
            "nothing",
            {},
            "the batch has neither `input_ids` nor `inputs_embeds`"},
        BadBatch{
            "unknown",
            {{"idx", at::zeros({1})}},
            "the batch has the column `idx`, but a model accepts only "
            "attention_mask, end_positions, input_ids, inputs_embeds, labels, "
            "position_ids, "
            "start_positions, token_type_ids"},
        BadBatch{
            "shape",
            {{"input_ids", at::zeros({3}, at::kLong)}},
            "`input_ids` has shape [3], but it must have 2 dimensions"},
        BadBatch{
            "mask",
            {{"input_ids", at::zeros({2, 3}, at::kLong)},
             {"attention_mask", at::ones({2, 4}, at::kLong)}},
            "`attention_mask` has shape [2, 4], but for this batch it must "
            "have shape [2, 3]"},
        BadBatch{
            "labels",
            {{"input_ids", at::zeros({2, 3}, at::kLong)},
             {"labels", at::zeros({3}, at::kLong)}},
            "`labels` has shape [3], but for this batch it must have shape "
            "[2]"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Models, LastTokenClassifiersNeedAPaddingId) {
  auto config = tiny_gpt2();
  config.pad_token_id.reset();
  const auto model = AutoModelForSequenceClassification::from_config(config);

  EXPECT_EQ(
      message_of<ArgumentError>([&] { (void)model(tiny_batch()); }),
      "the config has no `pad_token_id`, which is needed to find the "
      "last token of each of the 2 rows in the batch");
}

TEST(Models, ReportAHeadThatAnArchitectureDoesNotHave) {
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [] { (void)AutoModelForMaskedLM::from_config(tiny_gpt2()); }),
      "models of type `gpt2` have no head for masked language modeling");
}

TEST(Models, RejectAnUnknownAttentionImplementation) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        (void)AutoModel::from_config(
            tiny_bert(), {.attn_implementation = "flash"});
      }),
      "`attn_implementation` is `flash`, but must be sdpa or eager");
}

}  // namespace
}  // namespace transformers
