// SPDX-License-Identifier: Apache-2.0
// 200 steps of training: the losses of fused and recorded steps beside those
// of the readable path.
//
// The readable path is run nine times in bf16, each with sums in another order:
// the batch as a whole, its rows turned, in parts that are accumulated, with
// attention step by step, and on the CPU. How far those runs come apart is how
// far rounding carries; the fused run may be off the nearest by twice that,
// since it rounds the sums between layers too, which autocast leaves in fp32.
// What it was off stands in benchmarks/RESULTS.md.
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
#include "gpu/kernels/readable.h"
#include "transformers/transformers.h"

namespace transformers {
namespace {

using accelerate::TensorMap;
using Curve = std::vector<double>;

constexpr int kSteps = 200;
constexpr int kWindow = 10;
constexpr std::int64_t kWords = 500, kRows = 16, kTokens = 64;

at::Tensor ids_of(int step) {
  at::manual_seed(1000 + static_cast<std::uint64_t>(step));
  return at::randint(1, kWords, {kRows, kTokens}, at::kLong);
}

// One word of each sentence tells the class.
TensorMap sentences(int step) {
  at::Tensor ids = ids_of(step);
  const at::Tensor labels = at::randint(2, {kRows}, at::kLong);
  ids.select(1, 3).copy_(labels + 5);
  return {
      {"input_ids", ids},
      {"attention_mask", at::ones_like(ids)},
      {"labels", labels}};
}

// Each word follows from the one before, three times out of four.
TensorMap texts(int step) {
  at::Tensor ids = ids_of(step);
  for (std::int64_t t = 1; t < kTokens; ++t) {
    if (t % 4 != 0) {
      ids.select(1, t).copy_((ids.select(1, t - 1) * 7 + 3).remainder(kWords));
    }
  }
  return {{"input_ids", ids}, {"labels", ids}};
}

struct Order {
  std::int64_t turn = 0;
  std::int64_t parts = 1;
  const char* attention = "sdpa";
  c10::Device device = c10::Device(c10::kCUDA, 0);
};

TensorMap part_of(const TensorMap& batch, const Order& order, std::int64_t i) {
  TensorMap result;
  for (const auto& [name, tensor] : batch) {
    result.emplace(
        name,
        tensor.roll(order.turn, 0).chunk(order.parts)[i].to(order.device));
  }
  return result;
}

// Means over windows: single losses of small batches jump.
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
Curve train(Make make, Batch batch, const Order& order, bool records = false) {
  accelerate::Accelerator accelerator(
      accelerate::PartialState(accelerate::Group(), order.device),
      {.mixed_precision = accelerate::Precision::bf16,
       .gradient_accumulation_steps = order.parts,
       .record_steps = records});
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
    const TensorMap whole = batch(step);
    at::Tensor sum;
    for (std::int64_t i = 0; i < order.parts; ++i) {
      const auto region = accelerator.accumulate();
      const auto loss = model(part_of(whole, order, i)).loss;
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      sum = sum.defined() ? sum + loss.detach() : loss.detach();
    }
    scheduler.step();
    losses.push_back(sum / order.parts);
  }
  EXPECT_EQ(model->recorded_steps(), records ? kSteps - 1 : 0);
  return smooth(losses);
}

double distance(const Curve& a, const Curve& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

template <typename Make, typename Batch>
void compare_curves(Make make, Batch batch) {
  accelerate::cuda_backend().use_device(0);
  std::vector<Curve> readable;
  {
    const Readable only;
    for (const Order& order :
         {Order{},
          Order{.turn = 5},
          Order{.turn = 11},
          Order{.parts = 2},
          Order{.turn = 3, .parts = 2},
          Order{.parts = 4},
          Order{.attention = "eager"},
          Order{.turn = 7, .attention = "eager"},
          Order{.device = c10::Device(c10::kCPU)}}) {
      readable.push_back(train(make, batch, order));
    }
  }
  const Curve fused = train(make, batch, {}, /*records=*/true);
  double spread = 0;
  double nearest = HUGE_VAL;
  for (std::size_t i = 0; i < readable.size(); ++i) {
    nearest = std::min(nearest, distance(fused, readable[i]));
    for (std::size_t k = 0; k < i; ++k) {
      spread = std::max(spread, distance(readable[i], readable[k]));
    }
  }
  std::printf(
      "  loss %.4f -> %.4f (readable %.4f), off by %.5f; runs of the readable "
      "path are off each other by up to %.5f\n",
      fused.front(),
      fused.back(),
      readable.front().back(),
      nearest,
      spread);
  EXPECT_LT(fused.back(), 0.7 * fused.front());
  EXPECT_LE(nearest, 2 * spread);
}

TEST(Curves, Bert) {
  BertConfig config;
  config.vocab_size = kWords;
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

TEST(Curves, Gpt2) {
  GPT2Config config;
  config.vocab_size = kWords;
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
