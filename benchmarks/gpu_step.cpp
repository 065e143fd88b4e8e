// SPDX-License-Identifier: Apache-2.0
// Training steps on one GPU with this library's AdamW in bf16: the unchanged
// tutorial loop over models from `transformers`, and a `torch::nn` module
// inside `accelerator.graph`.
//
//     build/bin/benchmarks/gpu_step [--json] [--profile] [--mode MODE]
//         [--only TEXT]
//
// Prints a row for each workload, with its goals. The peak memory is measured
// over the timed steps, as in the script for Hugging Face Accelerate. Other
// modes: `loop` uses the tutorial loop for all workloads; `plain` does the same
// with `record_steps` off; `graph` puts each step inside `accelerator.graph`.
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
    const std::string argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--profile") {
      options.profile = true;
    } else if ((argument == "--mode" || argument == "--only") && i + 1 < argc) {
      (argument == "--mode" ? options.mode : options.only) = argv[++i];
    } else {
      std::fprintf(stderr, "error: unknown option `%s`\n", argument.c_str());
      std::exit(2);
    }
  }
  return options;
}

at::TensorOptions numbers() {
  return at::TensorOptions(at::kLong).device(at::kCUDA);
}

// Returns the same random numbers in every process, regardless of earlier
// draws, so that losses can be compared.
at::Tensor draw(std::int64_t below, at::IntArrayRef sizes) {
  return at::randint(below, sizes, at::detail::createCPUGenerator(7), at::kLong)
      .to(at::kCUDA);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Workload {
  std::string name;
  std::int64_t units = 0;  // Per step.
  Batches batches;         // Used one after another.
  int warm_up = 5;
  int steps = 40;
};

struct Measurement {
  double ms = 0.0;
  double warm_up_s = 0.0;
  double loss = 0.0;
};

template <typename Step>
Measurement time_steps(const Workload& work, Step step) {
  Measurement result;
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
  static StepReport report(options.json);
  return report;
}

void print(
    const Options& options,
    const Workload& work,
    const Measurement& measurement) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  report_of(options).add(
      {work.name,
       options.mode,
       measurement.ms,
       work.units,
       measurement.warm_up_s,
       static_cast<double>(stats.allocated_bytes[0].peak) / 1e9,
       measurement.loss});
}

accelerate::AcceleratorOptions accelerator_options(const Options& options) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  return {
      .mixed_precision = accelerate::Precision::bf16,
      .record_steps = options.mode == "ours" || options.mode == "loop"};
}

// Runs the body eagerly, or as one CUDA graph.
template <typename Body>
void measure_body(
    const Options& options,
    const Workload& work,
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
void measure(const Options& options, const Workload& work, const Make& make) {
  if (!work.name.starts_with(options.only)) {
    return;
  }
  accelerate::Accelerator accelerator(accelerator_options(options));
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

// Rows of 20 to 128 tokens, padded to the longest row in the batch.
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

// Measures steps with batches from a data loader, as in a real program.
template <typename Make>
void measure_lengths(const Options& options, const Make& make) {
  const Workload work = {"bert B32 lengths 20-128", 32, {}, 60, 120};
  if (!work.name.starts_with(options.only) || options.mode == "graph") {
    return;
  }
  accelerate::Accelerator accelerator(accelerator_options(options));
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
  Measurement result;
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
  const Workload work = {
      "module B8 T128",
      8,
      {{{"x", at::randn({128, 8, 768}, numbers().dtype(at::kFloat))},
        {"labels", draw(2, {8})}}},
      5,
      60};
  if (!work.name.starts_with(options.only)) {
    return;
  }
  accelerate::Accelerator accelerator(accelerator_options(options));
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
               "Measures training steps on one GPU and compares them with "
               "their goals. Modes: `ours` (default), `loop`, `plain`, "
               "`graph`.",
       .takes_positional = true});
  const Options options = parse(argc, argv);
  // Loads libaccelerate_cuda.so before the first tensor is created.
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
