// SPDX-License-Identifier: Apache-2.0
// Trackers: logs the loss of each step and the accuracy, for TensorBoard and as
// JSON lines, to tracking/spiral/<run>.
//
//     cd build/bin
//     program=examples/by_feature/tracking
//     ./accelerate launch --cpu --num_processes 2 $program
//     ./accelerate plot tracking/spiral
//
// The base program is ../base.cpp.
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
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
      const auto logits = model->forward(batch.data);
      const auto loss =
          torch::nn::functional::cross_entropy(logits, batch.target);
      accelerator.backward(loss);  // replaced

      optimizer.step();
      optimizer.zero_grad();
      progress_bar.update(1);
      // region: log
      accelerator.log(
          {{"train/loss", loss}}, {.step = accelerator.step()});  // added
      // endregion
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
  // New code
  // region: nested
  const double rate = static_cast<double>(correct) / static_cast<double>(seen);
  accelerator.log(
      {{"eval", {{"accuracy", rate}, {"points", seen}}},
       {"weights", accelerate::histogram_of(model->parameters().front())}},
      {.step = accelerator.step()});
  // endregion
  // End of new code
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
  const double accuracy = train(accelerator, split, options);
  accelerator.print(
      "accuracy on ", split.eval.size(), " points: ", 100 * accuracy, " %");
  // New code
  // Trains again, now with trackers.
  accelerator.free_memory();
  // region: trackers
  accelerate::Accelerator tracked({
      .project_dir = "tracking",
      .log_with = {"tensorboard", "jsonl"},
  });
  tracked.init_trackers(
      "spiral",
      accelerate::Json::object(
          {{"learning_rate", 1e-2}, {"batch_size", options.batch_size}}));
  // endregion
  train(tracked, split, options);
  // region: end
  tracked.end_training();
  // endregion
  tracked.print("see: accelerate plot tracking/spiral");
  // End of new code
}
