// SPDX-License-Identifier: Apache-2.0
// Training steps on one GPU, our AdamW, bf16: the tutorial's loop as it stands
// over models of `transformers`, and a module of `torch::nn` inside
// `accelerator.graph`.
//
//     build/bin/benchmarks/gpu_step [--json] [--profile] [--mode MODE]
//         [--only TEXT]
//
// Prints a row for each work, with its goals; the peak is that of the timed
// steps, as in the peer's script. Other modes: `loop` is the
// tutorial's loop for all of them, `plain` the same with `record_steps` off,
// `graph` the step inside `accelerator.graph`.
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "accelerate/accelerate.h"
#include "gpu_step_module.h"
#include "gpu_step_profile.h"
#include "gpu_step_report.h"
#include "support/arguments.h"
#include "transformers/transformers.h"

namespace {

using accelerate::TensorMap;
using Clock = std::chrono::steady_clock;
using Batches = std::vector<TensorMap>;

struct Options {
  bool json = false;
  bool profile = false;
  std::string mode = "ours";
  std::string only;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      options.json = true;
    } else if (word == "--profile") {
      options.profile = true;
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

// The same numbers in every process, whatever was drawn before: losses can be
// compared.
at::Tensor draw(std::int64_t below, at::IntArrayRef sizes) {
  return at::randint(
             below, sizes, at::detail::createCPUGenerator(7), at::kLong)
      .to(at::kCUDA);
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
      c10::cuda::CUDACachingAllocator::resetPeakStats(0);
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

StepReport& report_of(const Options& options) {
  static StepReport one(options.json);
  return one;
}

void print(const Options& options, const Work& work, const Measured& measured) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  report_of(options).add(
      {work.name,
       options.mode,
       measured.ms,
       work.units,
       measured.warm_up_s,
       static_cast<double>(stats.allocated_bytes[0].peak) / 1e9,
       measured.loss});
}

accelerate::AcceleratorOptions settings_of(const Options& options) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  return {
      .mixed_precision = accelerate::Precision::bf16,
      .record_steps = options.mode == "ours" || options.mode == "loop"};
}

// A body runs as it is, or recorded as a whole.
template <typename Body>
void measure_body(
    const Options& options,
    const Work& work,
    accelerate::Accelerator& accelerator,
    bool is_graphed,
    const Body& body) {
  auto graphed = accelerator.graph(body);
  const auto step = [&](const TensorMap& batch) {
    return is_graphed ? graphed(batch) : body(batch);
  };
  print(options, work, time_steps(work, step));
  if (options.profile) {
    print_profile([&] { step(work.batches.front()); });
  }
}

template <typename Make>
void measure(const Options& options, const Work& work, const Make& make) {
  if (!work.name.starts_with(options.only)) {
    return;
  }
  accelerate::Accelerator accelerator(settings_of(options));
  accelerate::set_seed(0);
  auto model = make();
  transformers::AdamW optimizer(model->parameters(), 1e-4);
  accelerator.prepare(model, optimizer);
  model->train();
  measure_body(
      options,
      work,
      accelerator,
      options.mode == "graph",
      [&](const TensorMap& batch) {
        auto outputs = model(batch);
        accelerator.backward(outputs.loss);
        optimizer.step();
        optimizer.zero_grad();
        return outputs.loss.detach();
      });
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
void measure_lengths(const Options& options, const Make& make) {
  const Work work = {"bert B32 lengths 20-128", 32, {}, 60, 120};
  if (!work.name.starts_with(options.only) || options.mode == "graph") {
    return;
  }
  accelerate::Accelerator accelerator(settings_of(options));
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
      c10::cuda::CUDACachingAllocator::resetPeakStats(0);
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
  print(options, work, result);
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
  measure_lengths(options, make);
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

void module(const Options& options) {
  const Work work = {
      "module B8 T128",
      8,
      {{{"x", at::randn({128, 8, 768}, numbers().dtype(at::kFloat))},
        {"labels", draw(2, {8})}}},
      5,
      60};
  if (!work.name.starts_with(options.only)) {
    return;
  }
  accelerate::Accelerator accelerator(settings_of(options));
  accelerate::set_seed(0);
  PlainModule model;
  accelerate::AdamW optimizer(model->parameters(), 1e-4);
  accelerator.prepare(model, optimizer);
  model->train();
  measure_body(
      options,
      work,
      accelerator,
      options.mode == "ours" || options.mode == "graph",
      [&](const TensorMap& batch) {
        const auto loss =
            at::cross_entropy_loss(model(batch.at("x")), batch.at("labels"));
        accelerator.backward(loss);
        optimizer.step();
        optimizer.zero_grad();
        return loss.detach();
      });
}

}  // namespace

int main(int argc, char** argv) {
  accelerate::benchmarks::check_arguments(
      argc,
      argv,
      {.text = "gpu_step [--json] [--profile] [--mode MODE] [--only TEXT]\n\n"
               "Training steps on one GPU, beside their goals. Modes: `ours` "
               "(unless told), `loop`, `plain`, `graph`.",
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
  module(options);
  return 0;
}
