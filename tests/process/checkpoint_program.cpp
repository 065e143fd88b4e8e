// SPDX-License-Identifier: Apache-2.0
// A training program that continues from its last checkpoint.
//
//     checkpoint_program folder=PATH [steps=N] [every=N] [background]
//                        [request=exit|exit_or_hang|exit_or_fail|continue]
//                        [kill=RANK@STEP@CALL] [signal=RANK@STEP]
//                        [slow=RANK@STEP@{steps | stdin | each}]
//                        [timeout=SECONDS] [each_node] [losses]
//
// `every=N` saves a checkpoint every N steps; if a save fails, the error is
// printed once. On SIGTERM or SIGUSR1 the program saves and exits (rank 1 hangs
// or fails instead), or continues. `signal` signals one rank in that step.
// `kill` kills a rank in its save after that step, at that file-system call.
// `slow` simulates a slow disk on one rank: the save blocks until training has
// continued (`steps`) or a line has been read from stdin (`stdin`), or each
// call takes long (`each`). `losses` prints the loss of every step to the last
// bit.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <latch>
#include <string>

#include <accelerate/accelerate.h>

#include <torch/nn.h>

#include "support/fault_points.h"

namespace {

class Arguments {
 public:
  Arguments(int argc, char** argv) : arguments_(argv + 1, argv + argc) {}

  bool has(const std::string& word) const {
    return std::find(arguments_.begin(), arguments_.end(), word) !=
           arguments_.end();
  }
  std::string after(const std::string& name) const {
    for (const std::string& word : arguments_) {
      if (word.starts_with(name + "=")) {
        return word.substr(name.size() + 1);
      }
    }
    return "";
  }
  int number(const std::string& name, int otherwise) const {
    const std::string text = after(name);
    return text.empty() ? otherwise : std::atoi(text.c_str());
  }

 private:
  std::vector<std::string> arguments_;
};

// Whether this rank is signalled in this step.
bool is_signalled(const Arguments& arguments, std::int64_t rank, int step) {
  int target = -1;
  int at_step = 0;
  std::sscanf(arguments.after("signal").c_str(), "%d@%d", &target, &at_step);
  return target == rank && at_step == step;
}

// Returns the call at which this rank is killed in the save after this step; 0
// if the rank is not killed.
int kill_call(const Arguments& arguments, std::int64_t rank, int step) {
  int victim = -1;
  int at_step = 0;
  int call = 0;
  std::sscanf(
      arguments.after("kill").c_str(), "%d@%d@%d", &victim, &at_step, &call);
  return victim == rank && at_step == step ? call : 0;
}

/// A disk that blocks for a while.
class SlowDisk {
 public:
  explicit SlowDisk(const Arguments& arguments) {
    std::sscanf(
        arguments.after("slow").c_str(),
        "%d@%d@%7s",
        &rank_,
        &step_,
        mode_.data());
  }

  /// Called before a save: blocks the next write in the chosen step.
  void before_save(accelerate::Accelerator& accelerator, int step) {
    if (accelerator.process_index() != rank_ || step != step_) {
      return;
    }
    accelerator.wait_for_checkpoint();  // Blocks the write of the next save.
    const std::string mode = mode_.data();
    if (mode == "each") {
      accelerate::slow_down(std::chrono::milliseconds(20));
    } else if (mode == "stdin") {
      accelerate::block_first_write([] {
        std::string line;
        std::getline(std::cin, line);
      });
    } else {
      accelerate::block_first_write([this] { trained_.wait(); });
    }
  }

  void after_step(int step) {
    if (step_ > 0 && step == step_ + 3) {
      std::cerr << "trained further" << std::endl;
      trained_.count_down();
    }
  }

 private:
  int rank_ = -1;
  int step_ = -1;
  std::array<char, 8> mode_{};
  std::latch trained_{1};
};

// Saves a checkpoint. If the call throws the error of an earlier background
// save, saves again.
void save(accelerate::Accelerator& accelerator, bool blocking) {
  try {
    accelerator.save_state({.blocking = blocking});
  } catch (const accelerate::Error& error) {
    std::cerr << "save failed: " << error.what() << std::endl;
    accelerator.save_state({.blocking = blocking});
  }
}

accelerate::AcceleratorOptions options_of(const Arguments& arguments) {
  accelerate::AcceleratorOptions options;
  options.project_config = accelerate::ProjectConfiguration{
      .project_dir = arguments.after("folder"),
      .automatic_checkpoint_naming = true,
      .total_limit = 2,
      .save_on_each_node = arguments.has("each_node")};
  if (const int seconds = arguments.number("timeout", 0); seconds > 0) {
    options.init_process_group_kwargs = accelerate::InitProcessGroupKwargs{
        .timeout = std::chrono::seconds(seconds)};
  }
  return options;
}

int train(const Arguments& arguments) {
  accelerate::Accelerator accelerator(options_of(arguments));
  torch::manual_seed(5);
  torch::nn::Sequential net(
      torch::nn::Linear(4, 16),
      torch::nn::Dropout(0.5),
      torch::nn::Linear(16, 3));
  accelerate::AdamW optimizer(net->parameters(), 0.01);
  accelerator.prepare(net, optimizer);
  const std::int64_t rank = accelerator.process_index();
  // Dropout differs between ranks, and between starts.
  torch::manual_seed(arguments.number("seed", 1) * 100 + rank);
  try {
    accelerator.print("loaded step ", accelerator.load_state().step);
  } catch (const accelerate::IoError&) {
    accelerator.print("nothing to load");
  }

  const int steps = arguments.number("steps", 4);
  const int every = arguments.number("every", 0);
  const std::string request = arguments.after("request");
  SlowDisk disk(arguments);
  const int first = static_cast<int>(accelerator.step()) + 1;
  for (int step = first; step <= steps; ++step) {
    const auto rows = torch::arange(8, torch::kFloat).view({2, 4});
    const auto loss =
        net->forward(rows.mul(0.1 * step + static_cast<double>(rank)).cos())
            .pow(2)
            .sum();
    if (arguments.has("losses")) {
      std::printf(
          "rank %d step %d loss %a\n",
          static_cast<int>(rank),
          step,
          loss.item<double>());
    }
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    if (accelerator.is_main_process() && step == first + 2) {
      std::cerr << "trains" << std::endl;
    }
    if (is_signalled(arguments, rank, step)) {
      ::raise(SIGUSR1);
    }
    if (!request.empty() && accelerator.checkpoint_requested() &&
        request.starts_with("exit")) {
      accelerator.save_state();
      if (request == "exit_or_hang" && rank == 1) {
        ::pause();
      }
      if (request == "exit_or_fail" && rank == 1) {
        throw accelerate::StateError("after the checkpoint");
      }
      accelerator.print("exited at step ", step);
      std::printf("rank %d exited at step %d\n", static_cast<int>(rank), step);
      return accelerate::kPreemptedExitCode;
    }
    if (every > 0 && step % every == 0) {
      const int call = kill_call(arguments, rank, step);
      if (call > 0) {
        // Makes sure that the rank is killed in the next save.
        accelerator.wait_for_checkpoint();
        accelerate::kill_at_call(call);
      }
      disk.before_save(accelerator, step);
      save(accelerator, !arguments.has("background"));
    }
    disk.after_step(step);
  }
  accelerator.wait_for_checkpoint();
  accelerator.print("done at step ", steps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train(Arguments(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
