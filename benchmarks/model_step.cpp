// SPDX-License-Identifier: Apache-2.0
// A training step of BERT for classification on CPU processes (fp32, one
// thread), with the tutorial's loop. compare_models.py compares it with Hugging
// Face Transformers.
//
//     build/bin/benchmarks/model_step LAYERS HIDDEN HEADS BATCH LENGTH STEPS
//     build/bin/benchmarks/model_step --quick
//
// Prints one JSON object: the median time of a step and the time from the
// program's start to the end of the first step, both in seconds, and the peak
// memory in GB.
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <ATen/Parallel.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "accelerate/accelerate.h"
#include "accelerate/json.h"
#include "support/arguments.h"
#include "support/report.h"
#include "transformers/transformers.h"

namespace {

using Clock = std::chrono::steady_clock;
const Clock::time_point kStart = Clock::now();

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Sizes {
  std::int64_t layers = 1;
  std::int64_t hidden = 32;
  std::int64_t heads = 2;
  std::int64_t batch = 2;
  std::int64_t length = 8;
  std::int64_t steps = 5;
};

/// The same items as in compare_models.py.
struct Items {
  std::int64_t count;
  std::int64_t length;

  std::int64_t size() const { return count; }
  accelerate::TensorMap get(std::size_t index) const {
    const auto i = static_cast<std::int64_t>(index);
    return {
        {"input_ids", at::full({length}, i % 30000, at::kLong)},
        {"attention_mask", at::ones({length}, at::kLong)},
        {"labels", at::scalar_tensor(i % 2, at::kLong)}};
  }
};

Sizes parse_sizes(int argc, char** argv) {
  Sizes sizes;
  if (argc == 7) {
    std::int64_t* fields[] = {
        &sizes.layers,
        &sizes.hidden,
        &sizes.heads,
        &sizes.batch,
        &sizes.length,
        &sizes.steps};
    for (int i = 0; i < 6; ++i) {
      *fields[i] = std::stoll(argv[i + 1]);
    }
  }
  return sizes;
}

void run(const Sizes& sizes) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  accelerate::Accelerator accelerator({.cpu = true});
  auto model = transformers::AutoModelForSequenceClassification::from_config(
      transformers::BertConfig{
          .hidden_size = sizes.hidden,
          .num_hidden_layers = sizes.layers,
          .num_attention_heads = sizes.heads,
          .intermediate_size = 4 * sizes.hidden});
  accelerate::DataLoader loader(
      Items{
          sizes.steps * sizes.batch * accelerator.num_processes(),
          sizes.length},
      {.batch_size = sizes.batch, .shuffle = true});
  transformers::AdamW optimizer(model->parameters(), 3e-5);
  accelerator.prepare(loader, model, optimizer);
  auto scheduler = transformers::get_scheduler(
      "linear",
      optimizer,
      {.num_warmup_steps = 0, .num_training_steps = sizes.steps});

  model->train();
  std::vector<double> times;
  double first = 0;
  auto before = Clock::now();
  for (auto& batch : loader) {
    accelerator.backward(model(batch).loss);
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    first = times.empty() ? seconds_since(kStart) : first;
    times.push_back(seconds_since(before));
    before = Clock::now();
  }
  if (times.size() > 6) {
    times.erase(times.begin(), times.begin() + 3);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  if (accelerator.is_main_process()) {
    std::cout << accelerate::Json::object(
                     {{"processes", accelerator.num_processes()},
                      {"step", accelerate::benchmarks::median(times)},
                      {"first", first},
                      {"memory", static_cast<double>(usage.ru_maxrss) / 1e6}})
                     .dump()
              << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "model_step LAYERS HIDDEN HEADS BATCH LENGTH STEPS\n"
               "       model_step --quick\n\n"
               "Measures a training step of BERT for classification on CPU "
               "processes.",
       .takes_positional = true});
  if (argc != 7 && !accelerate::benchmarks::has_flag(argc, argv, "--quick")) {
    std::cerr << "usage: model_step LAYERS HIDDEN HEADS BATCH LENGTH STEPS\n";
    return 2;
  }
  run(parse_sizes(argc, argv));
}
