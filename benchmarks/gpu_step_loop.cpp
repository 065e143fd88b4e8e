// SPDX-License-Identifier: Apache-2.0
// The tutorial's loop on one GPU: a model of `transformers`, our AdamW, bf16,
// as it stands and recorded by `accelerator.graph`.
//
//     build/bin/benchmarks/gpu_step_loop [name]
#include <chrono>
#include <cstdio>
#include <string>

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "accelerate/accelerate.h"
#include "transformers/transformers.h"

namespace {

using accelerate::TensorMap;
using Clock = std::chrono::steady_clock;

at::Tensor draw(std::int64_t below, at::IntArrayRef sizes) {
  return at::randint(
      below, sizes, at::TensorOptions(at::kLong).device(at::kCUDA));
}

template <typename Step>
double ms_of(const Step& step, int steps) {
  c10::cuda::device_synchronize();
  const auto start = Clock::now();
  for (int i = 0; i < steps; ++i) {
    step();
  }
  c10::cuda::device_synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count() * 1e3 /
         steps;
}

template <typename Model>
void measure(
    const char* name,
    accelerate::Accelerator& accelerator,
    Model model,
    const TensorMap& batch,
    std::int64_t units,
    int steps) {
  transformers::AdamW optimizer(model->parameters(), 1e-4);
  accelerator.prepare(model, optimizer);
  model->train();
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  const auto body = [&](const TensorMap& inputs) {
    auto outputs = model(inputs);
    accelerator.backward(outputs.loss);
    optimizer.step();
    optimizer.zero_grad();
    return outputs.loss.detach();
  };
  const auto start = Clock::now();
  for (int i = 0; i < 3; ++i) {
    body(batch);
  }
  const double eager = ms_of([&] { body(batch); }, steps);
  auto graphed = accelerator.graph(body);
  at::Tensor loss;
  for (int i = 0; i < 4; ++i) {
    loss = graphed(batch);
  }
  const double warm_up =
      std::chrono::duration<double>(Clock::now() - start).count() -
      eager * steps / 1e3;
  const double ms = ms_of([&] { loss = graphed(batch); }, steps);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  std::printf(
      "%-28s loop %8.3f ms, graph %8.3f ms (%ld replays), %9.0f /s, warm-up "
      "%.2f s, peak %.2f GB, loss %.4f %s\n",
      name,
      eager,
      ms,
      static_cast<long>(graphed.core().num_replays()),
      static_cast<double>(units) / ms * 1e3,
      warm_up,
      static_cast<double>(stats.allocated_bytes[0].peak) / 1e9,
      loss.item<double>(),
      graphed.core().why_not().c_str());
  std::fflush(stdout);
}

void bert(accelerate::Accelerator& accelerator, std::int64_t batch, int steps) {
  measure(
      ("bert B" + std::to_string(batch) + " T128").c_str(),
      accelerator,
      transformers::AutoModelForSequenceClassification::from_config(
          transformers::BertConfig()),
      {{"input_ids", draw(30522, {batch, 128})},
       {"attention_mask",
        at::ones({batch, 128}, at::TensorOptions(at::kLong).device(at::kCUDA))},
       {"labels", draw(2, {batch})}},
      batch,
      steps);
}

void gpt2(accelerate::Accelerator& accelerator, double dropout) {
  transformers::GPT2Config config;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = dropout;
  const auto ids = draw(50257, {32, 1024});
  measure(
      dropout > 0 ? "gpt2 B32 T1024" : "gpt2 dropout 0 B32 T1024",
      accelerator,
      transformers::AutoModelForCausalLM::from_config(config),
      {{"input_ids", ids}, {"labels", ids}},
      32 * 1024,
      10);
}

void llama(accelerate::Accelerator& accelerator) {
  transformers::LlamaConfig config;
  config.vocab_size = 128256;
  config.hidden_size = 2048;
  config.intermediate_size = 8192;
  config.num_hidden_layers = 16;
  config.num_attention_heads = 32;
  config.num_key_value_heads = 8;
  config.tie_word_embeddings = true;
  const auto ids = draw(128256, {8, 2048});
  measure(
      "llama B8 T2048",
      accelerator,
      transformers::AutoModelForCausalLM::from_config(config),
      {{"input_ids", ids}, {"labels", ids}},
      8 * 2048,
      6);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  accelerate::Accelerator accelerator(
      {.mixed_precision = accelerate::Precision::bf16});
  if (only.empty() || only == "bert") {
    bert(accelerator, 8, 40);
    bert(accelerator, 32, 40);
    bert(accelerator, 256, 15);
  }
  if (only.empty() || only == "gpt2") {
    gpt2(accelerator, 0.1);
    gpt2(accelerator, 0.0);
  }
  if (only.empty() || only == "llama") {
    llama(accelerator);
  }
  return 0;
}
