// SPDX-License-Identifier: Apache-2.0
// Whole models: the fused path against the readable one.
//
// The truth is fp32 without autocast; the error of the fused path, in the loss
// and in every gradient, may be twice that of the readable path under
// autocast.
#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/accelerate.h"
#include "accelerate/autocast.h"
#include "device/device_library.h"
#include "device/fused_blocks.h"
#include "device/host_copies.h"
#include "gpu/kernels/readable.h"
#include "transformers/transformers.h"

namespace transformers {
namespace {

using accelerate::AutocastGuard;
using accelerate::Precision;
using accelerate::TensorMap;

struct Outcome {
  double loss = 0.0;
  std::map<std::string, at::Tensor> gradients;
};

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
    outcome.gradients[name] = parameter.grad().to(at::kDouble);
  }
  return outcome;
}

double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const double norm = expected.norm().item<double>();
  return (actual - expected).norm().item<double>() / (norm > 0 ? norm : 1.0);
}

template <typename Model>
void compare(const Model& model, const TensorMap& batch) {
  accelerate::cuda_backend().use_device(0);
  ASSERT_NE(accelerate::fused_blocks(), nullptr);
  model.module()->to(at::Device(at::kCUDA, 0));
  model->train();
  TensorMap on_gpu;
  for (const auto& [name, tensor] : batch) {
    on_gpu.insert_or_assign(name, tensor.to(at::kCUDA));
  }
  Outcome truth;
  Outcome readable;
  {
    const Readable only;
    truth = run(model, on_gpu, Precision::no);
    readable = run(model, on_gpu, Precision::bf16);
  }
  const Outcome fused = run(model, on_gpu, Precision::bf16);
  EXPECT_NEAR(fused.loss, truth.loss, 5e-3 * truth.loss);
  double worst = 0.0;
  std::string worst_name;
  for (const auto& [name, gradient] : truth.gradients) {
    const at::Tensor size = gradient.norm();
    if (size.item<double>() < 1e-6) {
      continue;  // The bias of keys: nothing but rounding.
    }
    const double ours = error_of(fused.gradients.at(name), gradient);
    const double theirs = error_of(readable.gradients.at(name), gradient);
    EXPECT_LE(ours, 2 * theirs + 1e-6) << name;
    if (ours / theirs > worst) {
      worst = ours / theirs;
      worst_name = name;
    }
  }
  std::printf(
      "  loss %.5f (fp32 %.5f, readable %.5f), worst gradient %.2f x: %s\n",
      fused.loss,
      truth.loss,
      readable.loss,
      worst,
      worst_name.c_str());
}

at::Tensor draw(std::int64_t below, at::IntArrayRef sizes) {
  return at::randint(below, sizes, at::kLong);
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

// A recorded step leaves padding out where the mask is known on the host.
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
  Outcome truth;
  Outcome readable;
  {
    const Readable only;
    truth = run(model, on_gpu, Precision::no);
    readable = run(model, on_gpu, Precision::bf16);
  }
  accelerate::Accelerator accelerator({.mixed_precision = Precision::bf16});
  accelerator.prepare(model);
  const auto padded = run(model, on_gpu, Precision::bf16);
  accelerate::remember_host_copy(on_gpu.at("attention_mask"), mask);
  for (int call = 0; call < 4; ++call) {
    SCOPED_TRACE(call);
    const auto unpadded = run(model, on_gpu, Precision::bf16);
    EXPECT_NEAR(unpadded.loss, truth.loss, 5e-3 * truth.loss);
    for (const auto& [name, gradient] : truth.gradients) {
      if (gradient.norm().item<double>() > 1e-6) {
        EXPECT_LE(
            error_of(unpadded.gradients.at(name), gradient),
            2 * error_of(readable.gradients.at(name), gradient) + 1e-6)
            << name;
      }
    }
    std::printf(
        "  loss %.5f (fp32 %.5f, padded %.5f)\n",
        unpadded.loss,
        truth.loss,
        padded.loss);
  }
  // The first call of each kind chooses kernels, the second records.
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

// Both paths give nan where no label counts, and gradients of zeros.
TEST(FusedModels, CausalLossesOfNoLabel) {
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
  // The first label is of a token that nothing predicts.
  auto labels = at::full_like(ids, -100);
  labels.select(1, 0).fill_(7);
  const TensorMap batch = {{"input_ids", ids}, {"labels", labels}};
  Outcome readable;
  {
    const Readable only;
    readable = run(model, batch, Precision::bf16);
  }
  const Outcome fused = run(model, batch, Precision::bf16);
  EXPECT_TRUE(std::isnan(readable.loss));
  EXPECT_TRUE(std::isnan(fused.loss));
  for (const auto& [name, gradient] : readable.gradients) {
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
  compare(
      AutoModelForCausalLM::from_config(config),
      {{"input_ids", ids}, {"labels", ids}});
}

}  // namespace
}  // namespace transformers
