// SPDX-License-Identifier: Apache-2.0
// Compares the losses of 200 training steps with fused blocks and CUDA graphs
// with the losses of the reference path.
//
// The reference path runs nine times in bf16, each time with a different
// summation order: the whole batch, rotated rows, gradient accumulation over
// parts, eager attention, and the CPU. The spread of these runs shows the
// effect of rounding. The fused run may differ from the nearest of these runs
// by up to twice the spread, because the fused blocks also round the sums
// between layers, which stay in fp32 with autocast. benchmarks/RESULTS.md
// contains the measured differences.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/accelerate.h"
#include "accelerate/group.h"
#include "accelerate/partial_state.h"
#include "device/device_library.h"
#include "gpu/kernels/reference_path.h"
#include "transformers/transformers.h"

namespace transformers {
namespace {

using accelerate::TensorMap;
using Curve = std::vector<double>;

constexpr int kSteps = 200;
constexpr int kWindow = 10;
constexpr std::int64_t kVocabulary = 500, kRows = 16, kTokens = 64;

at::Tensor ids_of(int step) {
  at::manual_seed(1000 + static_cast<std::uint64_t>(step));
  return at::randint(1, kVocabulary, {kRows, kTokens}, at::kLong);
}

// One word of each sentence determines the class.
TensorMap sentences(int step) {
  at::Tensor ids = ids_of(step);
  const at::Tensor labels = at::randint(2, {kRows}, at::kLong);
  ids.select(1, 3).copy_(labels + 5);
  return {
      {"input_ids", ids},
      {"attention_mask", at::ones_like(ids)},
      {"labels", labels}};
}

// The previous word determines three of four words.
TensorMap texts(int step) {
  at::Tensor ids = ids_of(step);
  for (std::int64_t t = 1; t < kTokens; ++t) {
    if (t % 4 != 0) {
      ids.select(1, t).copy_(
          (ids.select(1, t - 1) * 7 + 3).remainder(kVocabulary));
    }
  }
  return {{"input_ids", ids}, {"labels", ids}};
}

struct Order {
  std::int64_t roll = 0;  // Rows by which the batch is rotated.
  std::int64_t parts = 1;
  const char* attention = "sdpa";
  c10::Device device = c10::Device(c10::kCUDA, 0);
};

TensorMap part_of(const TensorMap& batch, const Order& order, std::int64_t i) {
  TensorMap result;
  for (const auto& [name, tensor] : batch) {
    result.emplace(
        name,
        tensor.roll(order.roll, 0).chunk(order.parts)[i].to(order.device));
  }
  return result;
}

// Means over windows: single losses of small batches are noisy.
Curve smooth(const std::vector<at::Tensor>& losses) {
  Curve means;
  for (std::size_t i = 0; i + kWindow <= losses.size(); i += kWindow) {
    double sum = 0;
    for (std::size_t k = i; k < i + kWindow; ++k) {
      sum += losses[k].item<double>();
    }
    means.push_back(sum / kWindow);
  }
  return means;
}

template <typename Make, typename Batch>
Curve train(
    Make make, Batch batch, const Order& order, bool record_steps = false) {
  accelerate::Accelerator accelerator(
      accelerate::PartialState(accelerate::Group(), order.device),
      {.mixed_precision = accelerate::Precision::bf16,
       .gradient_accumulation_steps = order.parts,
       .record_steps = record_steps});
  at::manual_seed(11);
  auto model = make({.attn_implementation = order.attention});
  AdamW optimizer(model->parameters(), 5e-4);
  accelerator.prepare(model, optimizer);
  auto scheduler = get_scheduler(
      "linear",
      optimizer,
      {.num_warmup_steps = 20, .num_training_steps = kSteps});
  model->train();
  std::vector<at::Tensor> losses;
  for (int step = 0; step < kSteps; ++step) {
    const TensorMap full_batch = batch(step);
    at::Tensor sum;
    for (std::int64_t i = 0; i < order.parts; ++i) {
      const auto region = accelerator.accumulate();
      const auto loss = model(part_of(full_batch, order, i)).loss;
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      sum = sum.defined() ? sum + loss.detach() : loss.detach();
    }
    scheduler.step();
    losses.push_back(sum / order.parts);
  }
  EXPECT_EQ(model->recorded_steps(), record_steps ? kSteps - 1 : 0);
  return smooth(losses);
}

double distance(const Curve& a, const Curve& b) {
  double max_difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    max_difference = std::max(max_difference, std::abs(a[i] - b[i]));
  }
  return max_difference;
}

template <typename Make, typename Batch>
void compare_curves(Make make, Batch batch) {
  accelerate::cuda_backend().use_device(0);
  std::vector<Curve> reference;
  {
    const ReferencePathOnly only;
    for (const Order& order :
         {Order{},
          Order{.roll = 5},
          Order{.roll = 11},
          Order{.parts = 2},
          Order{.roll = 3, .parts = 2},
          Order{.parts = 4},
          Order{.attention = "eager"},
          Order{.roll = 7, .attention = "eager"},
          Order{.device = c10::Device(c10::kCPU)}}) {
      reference.push_back(train(make, batch, order));
    }
  }
  const Curve fused = train(make, batch, {}, /*record_steps=*/true);
  double spread = 0;
  double nearest = HUGE_VAL;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    nearest = std::min(nearest, distance(fused, reference[i]));
    for (std::size_t k = 0; k < i; ++k) {
      spread = std::max(spread, distance(reference[i], reference[k]));
    }
  }
  std::printf(
      "  loss %.4f -> %.4f (reference %.4f), difference %.5f; runs of the "
      "reference path differ by up to %.5f\n",
      fused.front(),
      fused.back(),
      reference.front().back(),
      nearest,
      spread);
  EXPECT_LT(fused.back(), 0.7 * fused.front());
  EXPECT_LE(nearest, 2 * spread);
}

TEST(LossCurves, BertMatchesTheReferencePath) {
  BertConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = 256;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  compare_curves(
      [&](const FromConfigOptions& options) {
        return AutoModelForSequenceClassification::from_config(config, options);
      },
      sentences);
}

TEST(LossCurves, Gpt2MatchesTheReferencePath) {
  GPT2Config config;
  config.vocab_size = kVocabulary;
  config.n_embd = 256;
  config.n_layer = 4;
  config.n_head = 4;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0;
  compare_curves(
      [&](const FromConfigOptions& options) {
        return AutoModelForCausalLM::from_config(config, options);
      },
      texts);
}

}  // namespace
}  // namespace transformers
