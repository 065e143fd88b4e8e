// SPDX-License-Identifier: Apache-2.0
// Compares the fused path with the reference path for whole models.
//
// Errors are relative to the reference path in fp32 without autocast. The error
// of the fused path, for all gradients together and for each gradient, may be
// up to twice the error of the reference path with autocast. For batches with
// few tokens, the limit is three times, because these gradients vary more.
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/accelerate.h"
#include "accelerate/autocast.h"
#include "accelerate/autocast_module.h"
#include "device/device_library.h"
#include "device/token_counts.h"
#include "transformers/transformers.h"

namespace transformers {
namespace {

using accelerate::AutocastGuard;
using accelerate::AutocastModule;
using accelerate::AutocastPolicy;
using accelerate::Precision;
using accelerate::TensorMap;

struct Outcome {
  double loss = 0.0;
  std::map<std::string, at::Tensor> gradients;
};

enum class Path { reference, fused };

// A model uses fused blocks only if its autocast policy requests bf16, even if
// autocast is enabled in this thread.
template <typename Model>
void choose_path(const Model& model, Path path) {
  std::optional<AutocastPolicy> policy;
  if (path == Path::fused) {
    policy = AutocastPolicy{at::kCUDA, Precision::bf16};
  }
  dynamic_cast<AutocastModule&>(*model.module()).set_autocast(policy);
}

// Computes the loss and its gradients.
template <typename Model>
Outcome run(const Model& model, const TensorMap& batch, Precision precision) {
  for (auto& parameter : model->parameters()) {
    parameter.mutable_grad() = at::Tensor();
  }
  at::Tensor loss;
  {
    const AutocastGuard guard(at::kCUDA, precision);
    loss = model(batch).loss;
  }
  loss.backward();
  Outcome outcome;
  outcome.loss = loss.template item<double>();
  for (const auto& [name, parameter] : model->named_parameters()) {
    outcome.gradients[name] =
        (parameter.grad().defined() ? parameter.grad()
                                    : at::zeros_like(parameter))
            .to(at::kDouble);
  }
  return outcome;
}

double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const double norm = expected.norm().item<double>();
  return (actual - expected).norm().item<double>() / (norm > 0 ? norm : 1.0);
}

template <typename Model>
void compare(const Model& model, const TensorMap& batch, double each = 2.0) {
  accelerate::cuda_backend().use_device(0);
  ASSERT_NE(accelerate::fused_blocks_of(c10::kCUDA), nullptr);
  model.module()->to(at::Device(at::kCUDA, 0));
  model->train();
  TensorMap on_gpu;
  for (const auto& [name, tensor] : batch) {
    on_gpu.insert_or_assign(name, tensor.to(at::kCUDA));
  }
  choose_path(model, Path::reference);
  const Outcome exact = run(model, on_gpu, Precision::no);
  const Outcome reference = run(model, on_gpu, Precision::bf16);
  choose_path(model, Path::fused);
  const Outcome fused = run(model, on_gpu, Precision::no);
  EXPECT_NEAR(fused.loss, exact.loss, 5e-3 * exact.loss);
  double worst = 0.0;
  std::string worst_name;
  double fused_total = 0.0;
  double reference_total = 0.0;
  for (const auto& [name, gradient] : exact.gradients) {
    const at::Tensor size = gradient.norm();
    if (size.item<double>() < 1e-6) {
      // The gradient of the bias of keys consists only of rounding errors.
      continue;
    }
    const double fused_error = error_of(fused.gradients.at(name), gradient);
    const double reference_error =
        error_of(reference.gradients.at(name), gradient);
    fused_total += fused_error * fused_error;
    reference_total += reference_error * reference_error;
    EXPECT_LE(fused_error, each * reference_error + 1e-6) << name;
    if (fused_error / reference_error > worst) {
      worst = fused_error / reference_error;
      worst_name = name;
    }
  }
  EXPECT_LE(fused_total, 4 * reference_total);
  std::printf(
      "  loss %.5f (fp32 %.5f, reference %.5f), error %.2f x, worst %.2f x: "
      "%s\n",
      fused.loss,
      exact.loss,
      reference.loss,
      std::sqrt(fused_total / reference_total),
      worst,
      worst_name.c_str());
}

at::Tensor draw(std::int64_t below, at::IntArrayRef sizes) {
  return at::randint(below, sizes, at::kLong);
}

// Lengths that fused blocks support, odd ones, and lengths that need the
// reference path.
constexpr std::int64_t kLengths[] = {48, 37, 7, 1};

TensorMap classified(std::int64_t tokens) {
  auto mask = at::ones({4, tokens}, at::kLong);
  mask[2].slice(0, (tokens + 1) / 2).zero_();
  // 1 is RoBERTa's padding id.
  return {
      {"input_ids", draw(998, {4, tokens}) + 2},
      {"attention_mask", mask},
      {"labels", draw(2, {4})}};
}

TEST(FusedModels, DistilBert) {
  at::manual_seed(5);
  DistilBertConfig config;
  config.vocab_size = 1000;
  config.dim = 256;
  config.n_layers = 3;
  config.n_heads = 4;
  config.hidden_dim = 1024;
  config.dropout = 0.0;
  config.attention_dropout = 0.0;
  config.seq_classif_dropout = 0.0;
  // Does not use the sequence classifier, because its ReLU has a discontinuous
  // gradient.
  const auto model = AutoModelForTokenClassification::from_config(config);
  for (const std::int64_t tokens : kLengths) {
    SCOPED_TRACE(tokens);
    TensorMap batch = classified(tokens);
    batch.insert_or_assign("labels", draw(2, {4, tokens}));
    compare(model, batch, 3.0);
  }
}

TEST(FusedModels, Roberta) {
  at::manual_seed(6);
  RobertaConfig config;
  config.vocab_size = 1000;
  config.hidden_size = 256;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  const auto model = AutoModelForSequenceClassification::from_config(config);
  for (const std::int64_t tokens : kLengths) {
    SCOPED_TRACE(tokens);
    compare(model, classified(tokens), 3.0);
  }
}

// For an empty batch, both paths return a NaN loss and zero gradients.
template <typename Model>
void compare_empty(const Model& model, const TensorMap& batch) {
  accelerate::cuda_backend().use_device(0);
  model.module()->to(at::Device(at::kCUDA, 0));
  model->train();
  TensorMap on_gpu;
  for (const auto& [name, tensor] : batch) {
    on_gpu.insert_or_assign(name, tensor.slice(0, 0, 0).to(at::kCUDA));
  }
  const Outcome reference = run(model, on_gpu, Precision::bf16);
  choose_path(model, Path::fused);
  const Outcome fused = run(model, on_gpu, Precision::no);
  EXPECT_TRUE(std::isnan(reference.loss));
  EXPECT_TRUE(std::isnan(fused.loss));
  for (const auto& [name, gradient] : reference.gradients) {
    EXPECT_TRUE(at::equal(fused.gradients.at(name), gradient)) << name;
  }
}

TEST(FusedModels, EmptyBatch) {
  BertConfig bert;
  bert.vocab_size = 1000;
  bert.hidden_size = 64;
  bert.num_hidden_layers = 1;
  bert.num_attention_heads = 2;
  bert.intermediate_size = 128;
  compare_empty(
      AutoModelForSequenceClassification::from_config(bert), classified(16));
  const auto ids = draw(1000, {2, 16});
  const TensorMap batch = {{"input_ids", ids}, {"labels", ids}};
  GPT2Config gpt2;
  gpt2.vocab_size = 1000;
  gpt2.n_embd = 64;
  gpt2.n_layer = 1;
  gpt2.n_head = 2;
  compare_empty(AutoModelForCausalLM::from_config(gpt2), batch);
  LlamaConfig llama;
  llama.vocab_size = 1000;
  llama.hidden_size = 64;
  llama.intermediate_size = 128;
  llama.num_hidden_layers = 1;
  llama.num_attention_heads = 2;
  compare_empty(AutoModelForCausalLM::from_config(llama), batch);
}

TEST(FusedModels, Bert) {
  at::manual_seed(1);
  BertConfig config;
  config.vocab_size = 1000;
  config.hidden_size = 256;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  auto mask = at::ones({4, 48}, at::kLong);
  mask[2].slice(0, 20).zero_();
  compare(
      AutoModelForSequenceClassification::from_config(config),
      {{"input_ids", draw(1000, {4, 48})},
       {"attention_mask", mask},
       {"token_type_ids", draw(2, {4, 48})},
       {"labels", draw(2, {4})}});
}

// A captured step removes padding where the mask has token counts.
TEST(FusedModels, BertWithoutPadding) {
  accelerate::cuda_backend().use_device(0);
  at::manual_seed(4);
  BertConfig config;
  config.vocab_size = 1000;
  config.hidden_size = 256;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  auto model = AutoModelForSequenceClassification::from_config(config);
  const auto lengths = at::randint(3, 60, {12, 1}, at::kLong);
  const auto mask = at::arange(60).unsqueeze(0).lt(lengths).to(at::kLong);
  const TensorMap batch = {
      {"input_ids", (draw(999, {12, 60}) + 1) * mask},
      {"attention_mask", mask},
      {"token_type_ids", draw(2, {12, 60})},
      {"labels", draw(2, {12})}};
  TensorMap on_gpu;
  for (const auto& [name, tensor] : batch) {
    on_gpu.insert_or_assign(name, tensor.to(at::kCUDA));
  }
  model.module()->to(at::Device(at::kCUDA, 0));
  model->train();
  const Outcome exact = run(model, on_gpu, Precision::no);
  const Outcome reference = run(model, on_gpu, Precision::bf16);
  accelerate::Accelerator accelerator({.mixed_precision = Precision::bf16});
  accelerator.prepare(model);
  const auto padded = run(model, on_gpu, Precision::no);
  // Attaches the counts, as a data loader does.
  accelerate::attach_token_counts(
      on_gpu.at("attention_mask"), *accelerate::count_tokens(mask));
  for (int call = 0; call < 4; ++call) {
    SCOPED_TRACE(call);
    const auto unpadded = run(model, on_gpu, Precision::no);
    EXPECT_NEAR(unpadded.loss, exact.loss, 5e-3 * exact.loss);
    for (const auto& [name, gradient] : exact.gradients) {
      if (gradient.norm().item<double>() > 1e-6) {
        EXPECT_LE(
            error_of(unpadded.gradients.at(name), gradient),
            2 * error_of(reference.gradients.at(name), gradient) + 1e-6)
            << name;
      }
    }
    std::printf(
        "  loss %.5f (fp32 %.5f, padded %.5f)\n",
        unpadded.loss,
        exact.loss,
        padded.loss);
  }
  // The first call of each kind chooses kernels, the second captures.
  EXPECT_EQ(model->recorded_steps(), 3);
}

TEST(FusedModels, Gpt2) {
  at::manual_seed(2);
  GPT2Config config;
  config.vocab_size = 1001;
  config.n_embd = 256;
  config.n_layer = 3;
  config.n_head = 4;
  config.resid_pdrop = 0.0;
  config.embd_pdrop = 0.0;
  config.attn_pdrop = 0.0;
  const auto ids = draw(1001, {3, 64});
  const auto model = AutoModelForCausalLM::from_config(config);
  compare(model, {{"input_ids", ids}, {"labels", ids}});
  auto mask = at::ones({3, 64}, at::kLong);
  mask[1].slice(0, 50).zero_();
  compare(
      model, {{"input_ids", ids}, {"labels", ids}, {"attention_mask", mask}});
}

// If all labels are ignored, both paths return a NaN loss and zero gradients.
TEST(FusedModels, CausalLossWithAllLabelsIgnored) {
  accelerate::cuda_backend().use_device(0);
  GPT2Config config;
  config.vocab_size = 1001;
  config.n_embd = 64;
  config.n_layer = 1;
  config.n_head = 2;
  auto model = AutoModelForCausalLM::from_config(config);
  model.module()->to(at::Device(at::kCUDA, 0));
  model->train();
  const auto ids = draw(1001, {2, 16}).to(at::kCUDA);
  // The first label belongs to a token that nothing predicts.
  auto labels = at::full_like(ids, -100);
  labels.select(1, 0).fill_(7);
  const TensorMap batch = {{"input_ids", ids}, {"labels", labels}};
  const Outcome reference = run(model, batch, Precision::bf16);
  choose_path(model, Path::fused);
  const Outcome fused = run(model, batch, Precision::no);
  EXPECT_TRUE(std::isnan(reference.loss));
  EXPECT_TRUE(std::isnan(fused.loss));
  for (const auto& [name, gradient] : reference.gradients) {
    EXPECT_FALSE(gradient.any().item<bool>()) << name;
    EXPECT_FALSE(fused.gradients.at(name).any().item<bool>()) << name;
  }
}

TEST(FusedModels, Llama) {
  at::manual_seed(3);
  LlamaConfig config;
  config.vocab_size = 1000;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  const auto ids = draw(1000, {3, 64});
  const auto model = AutoModelForCausalLM::from_config(config);
  compare(model, {{"input_ids", ids}, {"labels", ids}});
  auto mask = at::ones({3, 64}, at::kLong);
  mask[1].slice(0, 50).zero_();
  compare(
      model, {{"input_ids", ids}, {"labels", ids}, {"attention_mask", mask}});
  for (const std::int64_t tokens : {37, 7, 2}) {
    SCOPED_TRACE(tokens);
    const auto shortened = ids.slice(1, 0, tokens);
    compare(model, {{"input_ids", shortened}, {"labels", shortened}});
  }
}

}  // namespace
}  // namespace transformers
