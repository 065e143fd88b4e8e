// SPDX-License-Identifier: Apache-2.0
// Twenty training steps of every model family on xla:0 next to the CPU, in
// strict mode. With ACCELERATE_XLA_ALL_MODELS=1: also with SGD, also in fp32.
#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

#include "transformers/transformers.h"
#include "unit/xla/training_loop.h"
#include "unit/xla/xla_device.h"

namespace accelerate::xla {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kTokens = 6;

LossModel classifier(const transformers::Config& config) {
  const auto model =
      transformers::AutoModelForSequenceClassification::from_config(config);
  model->train();
  return {model.module(), [model](const TensorMap& batch) {
            return model(batch).loss;
          }};
}

// The model's own loss is always computed in fp32.
LossModel causal_model(const transformers::Config& config) {
  const auto model = transformers::AutoModelForCausalLM::from_config(config);
  model->train();
  return {model.module(), [model](const TensorMap& batch) {
            const at::Tensor logits = model(batch).logits.slice(1, 0, -1);
            const at::Tensor next = batch.at("input_ids").slice(1, 1);
            return at::cross_entropy_loss(logits.flatten(0, 1), next.flatten());
          }};
}

LossModel make_bert() {
  return classifier(transformers::BertConfig{
      .vocab_size = 40,
      .hidden_size = 16,
      .num_hidden_layers = 2,
      .num_attention_heads = 2,
      .intermediate_size = 24,
      .hidden_dropout_prob = 0,
      .attention_probs_dropout_prob = 0,
      .max_position_embeddings = 12});
}

LossModel make_roberta() {
  return classifier(transformers::RobertaConfig{
      .vocab_size = 40,
      .hidden_size = 16,
      .num_hidden_layers = 1,
      .num_attention_heads = 2,
      .intermediate_size = 24,
      .hidden_dropout_prob = 0,
      .attention_probs_dropout_prob = 0,
      .max_position_embeddings = 12});
}

LossModel make_distilbert() {
  return classifier(transformers::DistilBertConfig{
      .vocab_size = 40,
      .max_position_embeddings = 12,
      .n_layers = 1,
      .n_heads = 2,
      .dim = 16,
      .hidden_dim = 24,
      .dropout = 0,
      .attention_dropout = 0,
      .seq_classif_dropout = 0});
}

LossModel make_gpt2() {
  return causal_model(transformers::GPT2Config{
      .vocab_size = 40,
      .n_positions = 12,
      .n_embd = 16,
      .n_layer = 2,
      .n_head = 2,
      .resid_pdrop = 0,
      .embd_pdrop = 0,
      .attn_pdrop = 0});
}

LossModel make_llama() {
  const transformers::LlamaConfig config{
      .vocab_size = 40,
      .hidden_size = 16,
      .intermediate_size = 24,
      .num_hidden_layers = 2,
      .num_attention_heads = 4,
      .num_key_value_heads = 2,
      .max_position_embeddings = 12};
  return causal_model(config);
}

// Token ids without the models' padding ids, 0 and 1.
at::Tensor token_ids() {
  return at::randint(2, 40, {kBatch, kTokens});
}

// Rows of different lengths.
TensorMap padded_batch() {
  const at::Tensor lengths = at::randint(2, kTokens + 1, {kBatch, 1});
  return {
      {"input_ids", token_ids()},
      {"attention_mask", at::arange(kTokens).lt(lengths).to(at::kLong)},
      {"labels", at::randint(2, {kBatch})}};
}

TensorMap causal_batch() {
  return {{"input_ids", token_ids()}};
}

// ---- models of torch::nn ----

LossModel make_cnn() {
  nn::Sequential model(
      nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)),
      nn::BatchNorm2d(8),
      nn::ReLU(),
      nn::MaxPool2d(2),
      nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1)),
      nn::BatchNorm2d(8),
      nn::ReLU(),
      nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 1})),
      nn::Flatten(),
      nn::Linear(8, 4));
  return {model.ptr(), [model](const TensorMap& batch) mutable {
            return at::cross_entropy_loss(
                model->forward(batch.at("x")), batch.at("y"));
          }};
}

TensorMap images() {
  return {{"x", at::randn({kBatch, 3, 8, 8})}, {"y", at::randint(4, {kBatch})}};
}

struct TaggerImpl : nn::Module {
  TaggerImpl() {
    embedding = register_module("embedding", nn::Embedding(40, 8));
    lstm = register_module(
        "lstm",
        nn::LSTM(
            nn::LSTMOptions(8, 8).num_layers(2).batch_first(true).bidirectional(
                true)));
    head = register_module("head", nn::Linear(16, 4));
  }
  at::Tensor forward(const at::Tensor& ids) {
    return head(std::get<0>(lstm(embedding(ids))));
  }

  nn::Embedding embedding{nullptr};
  nn::LSTM lstm{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Tagger);

LossModel make_lstm() {
  Tagger model;
  return {model.ptr(), [model](const TensorMap& batch) mutable {
            return at::cross_entropy_loss(
                model(batch.at("x")).flatten(0, 1), batch.at("y").flatten());
          }};
}

TensorMap tagged_rows() {
  return {{"x", token_ids()}, {"y", at::randint(4, {kBatch, kTokens})}};
}

// ---- trainings ----

Optimizer make_sgd_with_momentum(std::vector<at::Tensor> parameters) {
  return std::make_shared<torch::optim::SGD>(
      std::move(parameters), torch::optim::SGDOptions(0.02).momentum(0.9));
}

Optimizer make_adamw_optimizer(std::vector<at::Tensor> parameters) {
  return std::make_shared<torch::optim::AdamW>(
      std::move(parameters), torch::optim::AdamWOptions(1e-3));
}

const std::vector<Training> kFamilies = {
    {"Bert", make_bert, padded_batch, make_adamw_optimizer},
    {"Roberta", make_roberta, padded_batch, make_adamw_optimizer},
    {"DistilBert", make_distilbert, padded_batch, make_adamw_optimizer},
    {"Gpt2", make_gpt2, causal_batch, make_adamw_optimizer},
    {"Llama", make_llama, causal_batch, make_adamw_optimizer},
    {"Cnn", make_cnn, images, make_adamw_optimizer},
    {"Lstm", make_lstm, tagged_rows, make_adamw_optimizer},
};

bool is_set(const char* variable) {
  return std::getenv(variable) != nullptr;
}

// Every family with both optimizers and both types; or AdamW in f64; or, with
// several devices, one family.
std::vector<Training> trainings() {
  std::vector<Training> list;
  const bool all = is_set("ACCELERATE_XLA_ALL_MODELS");
  const bool one_family = !all && is_set("ACCELERATE_TEST_XLA_DEVICES");
  for (const Training& family : kFamilies) {
    if (one_family && family.name != "Roberta") {
      continue;
    }
    list.push_back(family);
    if (all) {
      Training training = family;
      training.name = family.name + "Sgd";
      training.make_optimizer = make_sgd_with_momentum;
      list.push_back(training);
      training.name = family.name + "SgdFp32";
      training.type = at::kFloat;
      list.push_back(training);
      training.name = family.name + "Fp32";
      training.make_optimizer = family.make_optimizer;
      list.push_back(training);
    }
  }
  return list;
}

// RMS norm and rotary embeddings compute in fp32 whatever the model's type.
bool computes_in_fp32(const Training& training) {
  return training.name.starts_with("Llama");
}

class XlaModel : public testing::TestWithParam<Training> {};

TEST_P(XlaModel, EqualsTheCpuAfterTwentySteps) {
  const Training& training = GetParam();
  const double tolerance = training.type == at::kFloat  ? 1e-5
                           : computes_in_fp32(training) ? 1e-6
                                                        : 1e-9;
  const Trained expected = train(training, false);
  const Trained device = train(training, true);

  const double parameters = parameter_difference(device, expected);
  const double losses = loss_difference(device, expected);
  std::cout << training.name << ": losses differ by " << losses
            << ", parameters by " << parameters << "\n";
  EXPECT_LE(losses, tolerance);
  // AdamW in fp32 amplifies rounding: a gradient near zero decides the sign of
  // a whole step.
  if (!training.name.ends_with("Fp32") || training.name.ends_with("SgdFp32")) {
    EXPECT_LE(parameters, tolerance);
  }
  EXPECT_EQ(test_device().counts().fallbacks, 0);
  EXPECT_LT(device.losses.back(), device.losses.front());
}

INSTANTIATE_TEST_SUITE_P(
    All, XlaModel, testing::ValuesIn(trainings()), [](const auto& parameter) {
      return parameter.param.name;
    });

}  // namespace
}  // namespace accelerate::xla
