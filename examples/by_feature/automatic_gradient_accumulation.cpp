// SPDX-License-Identifier: Apache-2.0
// Automatic gradient accumulation: finds a batch size that fits in memory, and
// accumulates gradients over as many batches as the target batch size requires.
//
//     cd build/bin
//     program=examples/by_feature/automatic_gradient_accumulation
//     ./accelerate launch --cpu --num_processes 2 $program
//
// The base program is ../base.cpp.
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
// New code
#include <algorithm>
// End of new code
#include <string>
#include <vector>

#include <accelerate/accelerate.h>

#include <torch/data/example.h>
#include <torch/nn.h>
#include <torch/optim.h>

namespace {

// Points on a spiral with two arms. The label is the point's arm, 0 or 1.
struct Spiral {
  std::vector<std::int64_t> numbers;  // Point numbers, from 0 to 1999.

  std::int64_t size() const {
    return static_cast<std::int64_t>(numbers.size());
  }
  torch::data::Example<> get(std::int64_t index) const {
    const std::int64_t number = numbers[static_cast<std::size_t>(index)];
    const double t = 0.5 + static_cast<double>(number / 2) / 100;
    const double arm = number % 2 == 0 ? 0 : M_PI;
    return {
        torch::tensor({t * std::cos(t + arm), t * std::sin(t + arm)}).div(10),
        torch::tensor(number % 2)};
  }
};

struct Split {
  Spiral train;
  Spiral eval;
};

// Keeps every fifth pair of points for evaluation.
Split split_spiral(std::int64_t fold) {
  Split split;
  for (std::int64_t number = 0; number < 2000; ++number) {
    Spiral& part = number / 2 % 5 == fold ? split.eval : split.train;
    part.numbers.push_back(number);
  }
  return split;
}

torch::nn::Sequential make_model() {
  return torch::nn::Sequential(
      torch::nn::Linear(2, 64),
      torch::nn::Tanh(),
      torch::nn::Linear(64, 64),
      torch::nn::Tanh(),
      torch::nn::Linear(64, 2));
}

struct TrainingOptions {
  int num_epochs = 30;
  std::int64_t batch_size = 25;
  std::string project_dir = "logs";
  std::vector<accelerate::LogWith> log_with = {};
};

// Reads the options `--with_tracking` and `--project_dir <folder>`.
TrainingOptions parse(int argc, char** argv) {
  TrainingOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--with_tracking") {
      options.log_with = {"all"};
    } else if (name == "--project_dir" && i + 1 < argc) {
      options.project_dir = argv[++i];
    } else {
      const bool is_help = name == "--help";
      (is_help ? std::cout : std::cerr)
          << "usage: " << program_invocation_short_name
          << " [--with_tracking] [--project_dir <folder>]\n";
      std::exit(is_help ? 0 : 2);
    }
  }
  return options;
}
// New code

// Simulates a device with too little memory, since a CPU has enough for this
// small model. LibTorch throws a similar error when an allocation fails.
void allocate_for(const torch::Tensor& rows) {
  constexpr std::int64_t kMaxRows = 30;
  if (rows.size(0) > kMaxRows) {
    throw accelerate::OutOfMemoryError("not enough memory for this many rows");
  }
}
// End of new code

// Returns the fraction of `split.eval` that the model classifies correctly.
double train(
    accelerate::Accelerator& accelerator,
    const Split& split,
    const TrainingOptions& options) {
  accelerate::set_seed(42);
  accelerate::DataLoader train_dataloader(
      split.train, {.batch_size = options.batch_size, .shuffle = true});
  accelerate::DataLoader eval_dataloader(split.eval, {.batch_size = 64});
  auto model = make_model();
  accelerate::AdamW optimizer(model->parameters(), 1e-2);

  accelerator.prepare(
      train_dataloader, eval_dataloader, model, optimizer);  // added

  accelerate::tqdm progress_bar(options.num_epochs * train_dataloader.size());
  for (int epoch = 0; epoch < options.num_epochs; ++epoch) {
    model->train();
    for (auto& batch : train_dataloader) {
      // New code
      const auto micro_step = accelerator.accumulate();
      allocate_for(batch.data);
      // End of new code
      const auto logits = model->forward(batch.data);
      const auto loss =
          torch::nn::functional::cross_entropy(logits, batch.target);
      accelerator.backward(loss);  // replaced

      optimizer.step();
      optimizer.zero_grad();
      progress_bar.update(1);
      accelerator.log(
          {{"train/loss", loss}}, {.step = accelerator.step()});  // added
    }
  }

  model->eval();
  const torch::NoGradGuard no_grad;
  std::int64_t correct = 0;
  std::int64_t seen = 0;
  for (auto& batch : eval_dataloader) {
    const auto predictions = model->forward(batch.data).argmax(1);
    const auto hits = predictions.eq(batch.target);
    const auto all = accelerator.gather_for_metrics(hits);  // added
    correct += all.sum().item<std::int64_t>();
    seen += all.size(0);
  }
  return static_cast<double>(correct) / static_cast<double>(seen);
}

}  // namespace

int main(int argc, char** argv) {
  TrainingOptions options = parse(argc, argv);
  accelerate::Accelerator accelerator({
      // added
      .project_dir = options.project_dir,
      .log_with = options.log_with,
  });
  accelerator.init_trackers("spiral");  // added
  const Split split = split_spiral(0);
  // New code
  // region: find
  const std::int64_t target_batch_size = 50;
  options.batch_size = accelerate::find_executable_batch_size(
      [&](std::int64_t batch_size) {
        accelerator.free_memory();  // Discards a failed attempt.
        train(accelerator, split, {.num_epochs = 1, .batch_size = batch_size});
        return batch_size;
      },
      target_batch_size,
      [](std::int64_t batch_size) { return batch_size / 2; });
  accelerator.free_memory();
  accelerator.set_gradient_accumulation_steps(
      std::max<std::int64_t>(1, target_batch_size / options.batch_size));
  // endregion
  options.num_epochs *= 2;  // Keeps the number of updates the same.
  accelerator.print(
      accelerator.gradient_accumulation_steps(),
      " batches of ",
      options.batch_size,
      " make one update of ",
      target_batch_size);
  // End of new code
  const double accuracy = train(accelerator, split, options);
  accelerator.print(
      "accuracy on ", split.eval.size(), " points: ", 100 * accuracy, " %");
}
