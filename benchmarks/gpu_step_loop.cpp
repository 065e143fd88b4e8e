// SPDX-License-Identifier: Apache-2.0
// The tutorial's loop on one GPU: a model of `transformers`, our AdamW, bf16.
//
//     build/bin/benchmarks/gpu_step_loop [--json] [--mode MODE] [--only TEXT]
//
// Modes: `loop` is the tutorial's loop as it stands, `plain` the same with
// `record_steps` off, `graph` the same step inside `accelerator.graph`. Without
// one, all of them.
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "accelerate/accelerate.h"
#include "support/arguments.h"
#include "transformers/transformers.h"

namespace {

using accelerate::TensorMap;
using Clock = std::chrono::steady_clock;
using Batches = std::vector<TensorMap>;

struct Options {
  bool json = false;
  std::string mode;
  std::string only;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      options.json = true;
    } else if ((word == "--mode" || word == "--only") && i + 1 < argc) {
      (word == "--mode" ? options.mode : options.only) = argv[++i];
    } else {
      std::fprintf(stderr, "error: unknown option `%s`\n", word.c_str());
      std::exit(2);
    }
  }
  return options;
}

at::TensorOptions numbers() {
  return at::TensorOptions(at::kLong).device(at::kCUDA);
}

at::Tensor draw(std::int64_t below, at::IntArrayRef sizes) {
  return at::randint(below, sizes, numbers());
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Work {
  std::string name;
  std::int64_t units = 0;  // of a step
  Batches batches;         // taken in turn
  int warm_up = 5;
  int steps = 40;
};

struct Measured {
  double ms = 0.0;
  double warm_up_s = 0.0;
  double loss = 0.0;
};

template <typename Step>
Measured time_steps(const Work& work, Step step) {
  Measured result;
  at::Tensor loss;
  auto start = Clock::now();
  for (int i = 0; i < work.warm_up + work.steps; ++i) {
    if (i == work.warm_up) {
      c10::cuda::device_synchronize();
      result.warm_up_s = seconds_since(start);
      start = Clock::now();
    }
    loss =
        step(work.batches[static_cast<std::size_t>(i) % work.batches.size()]);
  }
  c10::cuda::device_synchronize();
  result.ms = seconds_since(start) * 1e3 / work.steps;
  result.loss = loss.item<double>();
  return result;
}

void print(
    const Options& options,
    const Work& work,
    const char* mode,
    const Measured& measured) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  std::printf(
      options.json
          ? "{\"work\": \"%s\", \"mode\": \"%s\", \"ms\": %.3f, "
            "\"units_per_s\": %.0f, \"warm_up_s\": %.2f, \"peak_gb\": %.2f, "
            "\"loss\": %.6f}\n"
          : "%-30s %-6s %9.3f ms %10.0f /s  warm-up %.2f s  peak %6.2f GB  "
            "loss %.4f\n",
      work.name.c_str(),
      mode,
      measured.ms,
      static_cast<double>(work.units) / measured.ms * 1e3,
      measured.warm_up_s,
      static_cast<double>(stats.allocated_bytes[0].peak) / 1e9,
      measured.loss);
  std::fflush(stdout);
}

template <typename Make>
void measure_mode(
    const Options& options,
    const Work& work,
    const std::string& mode,
    const Make& make) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  accelerate::Accelerator accelerator(
      {.mixed_precision = accelerate::Precision::bf16,
       .record_steps = mode == "loop"});
  accelerate::set_seed(0);
  auto model = make();
  transformers::AdamW optimizer(model->parameters(), 1e-4);
  accelerator.prepare(model, optimizer);
  model->train();
  const auto body = [&](const TensorMap& batch) {
    auto outputs = model(batch);
    accelerator.backward(outputs.loss);
    optimizer.step();
    optimizer.zero_grad();
    return outputs.loss.detach();
  };
  const auto result = mode == "graph"
                          ? time_steps(work, accelerator.graph(body))
                          : time_steps(work, body);
  print(options, work, mode.c_str(), result);
}

template <typename Make>
void measure(const Options& options, const Work& work, const Make& make) {
  for (const char* mode : {"loop", "plain", "graph"}) {
    if (work.name.starts_with(options.only) &&
        (options.mode.empty() || options.mode == mode)) {
      measure_mode(options, work, mode, make);
    }
  }
}

TensorMap sentences(std::int64_t batch) {
  return {
      {"input_ids", draw(30522, {batch, 128})},
      {"attention_mask", at::ones({batch, 128}, numbers())},
      {"labels", draw(2, {batch})}};
}

// Lengths from 20 to 128, padded to the batch's longest.
struct Sentences {
  explicit Sentences(std::int64_t count)
      : lengths(at::randint(20, 129, {count}, at::kLong)),
        ids(at::randint(30522, {count, 128}, at::kLong)),
        labels(at::randint(2, {count}, at::kLong)) {}
  std::size_t size() const { return static_cast<std::size_t>(ids.size(0)); }
  std::int64_t get(std::size_t index) const {
    return static_cast<std::int64_t>(index);
  }
  TensorMap batch(const std::vector<std::int64_t>& rows) const {
    const auto index = at::tensor(rows, at::kLong);
    const auto length = lengths.index_select(0, index);
    const auto width = length.max().item<std::int64_t>();
    const auto mask =
        at::arange(width).unsqueeze(0).lt(length.unsqueeze(1)).to(at::kLong);
    return {
        {"input_ids", ids.index_select(0, index).slice(1, 0, width) * mask},
        {"attention_mask", mask},
        {"labels", labels.index_select(0, index)}};
  }
  at::Tensor lengths, ids, labels;
};

// Batches as a program has them: from a loader.
template <typename Make>
void measure_lengths(
    const Options& options, const std::string& mode, const Make& make) {
  const Work work = {"bert B32 lengths 20-128", 32, {}, 60, 120};
  if (!work.name.starts_with(options.only) ||
      !(options.mode.empty() || options.mode == mode)) {
    return;
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  accelerate::Accelerator accelerator(
      {.mixed_precision = accelerate::Precision::bf16,
       .record_steps = mode == "loop"});
  accelerate::set_seed(0);
  auto model = make();
  transformers::AdamW optimizer(model->parameters(), 1e-4);
  const auto data =
      std::make_shared<Sentences>(work.units * (work.warm_up + work.steps));
  accelerate::DataLoader loader(
      data,
      {.batch_size = work.units, .num_workers = 2},
      [data](const std::vector<std::int64_t>& rows) {
        return data->batch(rows);
      });
  accelerator.prepare(loader, model, optimizer);
  model->train();
  Measured result;
  at::Tensor loss;
  int step = 0;
  auto start = Clock::now();
  for (auto& batch : loader) {
    if (step++ == work.warm_up) {
      c10::cuda::device_synchronize();
      result.warm_up_s = seconds_since(start);
      start = Clock::now();
    }
    auto outputs = model(batch);
    accelerator.backward(outputs.loss);
    optimizer.step();
    optimizer.zero_grad();
    loss = outputs.loss.detach();
  }
  c10::cuda::device_synchronize();
  result.ms = seconds_since(start) * 1e3 / work.steps;
  result.loss = loss.item<double>();
  print(options, work, mode.c_str(), result);
}

void bert(const Options& options) {
  const auto make = [] {
    return transformers::AutoModelForSequenceClassification::from_config(
        transformers::BertConfig());
  };
  for (const std::int64_t batch : {8, 32, 256}) {
    measure(
        options,
        {"bert B" + std::to_string(batch) + " T128",
         batch,
         {sentences(batch)},
         5,
         batch < 256 ? 60 : 20},
        make);
  }
  for (const char* mode : {"loop", "plain"}) {
    measure_lengths(options, mode, make);
  }
}

void gpt2(const Options& options, const char* name, bool is_medium, double p) {
  transformers::GPT2Config config;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = p;
  if (is_medium) {
    config.n_embd = 1024;
    config.n_layer = 24;
    config.n_head = 16;
  }
  const std::int64_t batch = is_medium ? 16 : 32;
  const auto ids = draw(50257, {batch, 1024});
  measure(
      options,
      {name, batch * 1024, {{{"input_ids", ids}, {"labels", ids}}}, 5, 20},
      [&] { return transformers::AutoModelForCausalLM::from_config(config); });
}

void llama(const Options& options) {
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
      options,
      {"llama B8 T2048",
       8 * 2048,
       {{{"input_ids", ids}, {"labels", ids}}},
       5,
       10},
      [&] { return transformers::AutoModelForCausalLM::from_config(config); });
}

}  // namespace

int main(int argc, char** argv) {
  accelerate::benchmarks::check_arguments(
      argc,
      argv,
      {.text = "gpu_step_loop [--json] [--mode MODE] [--only TEXT]\n\n"
               "The tutorial's loop on one GPU; modes are `loop`, `plain` and "
               "`graph`.",
       .takes_words = true});
  const Options options = parse(argc, argv);
  // Opens the CUDA half before the first tensor is made.
  const accelerate::Accelerator accelerator(
      {.mixed_precision = accelerate::Precision::bf16});
  bert(options);
  gpt2(options, "gpt2 B32 T1024", false, 0.1);
  gpt2(options, "gpt2 dropout 0 B32 T1024", false, 0.0);
  gpt2(options, "gpt2-350M dropout 0 B16 T1024", true, 0.0);
  llama(options);
  return 0;
}
