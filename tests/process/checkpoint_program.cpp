// SPDX-License-Identifier: Apache-2.0
// A training program that continues where its last checkpoint was saved.
//
//     checkpoint_program folder=PATH [steps=N] [every=N] [background]
//                        [request=leave|leave_or_hang|leave_or_fail|stay]
//                        [kill=RANK@STEP@CALL] [ask=RANK@STEP]
//                        [slow=RANK@STEP@{steps | told | each}]
//                        [timeout=SECONDS] [each_node] [losses]
//
// `every` saves after so many steps; what a save throws is printed, once. When
// it is asked to (SIGTERM, SIGUSR1) it saves and leaves (rank 1 hangs or fails
// in its place), or does not care; with `ask` one rank is asked in that step.
// `kill` ends a rank in its save after that step, at that call to the file
// system. `slow` gives it a disk that does not answer in that save until
// training has gone on or a line came from stdin, or that takes long for each
// call. `losses` prints the loss of every step to the last bit.
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

class Words {
 public:
  Words(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  bool has(const std::string& word) const {
    return std::find(words_.begin(), words_.end(), word) != words_.end();
  }
  std::string after(const std::string& name) const {
    for (const std::string& word : words_) {
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
  std::vector<std::string> words_;
};

// Whether this rank is the one that is asked to leave, in this step.
bool is_asked(const Words& words, std::int64_t rank, int step) {
  int asked = -1;
  int at_step = 0;
  std::sscanf(words.after("ask").c_str(), "%d@%d", &asked, &at_step);
  return asked == rank && at_step == step;
}

// Whether this rank shall die in the save after this step, and at which call.
int deadly_call(const Words& words, std::int64_t rank, int step) {
  int victim = -1;
  int at_step = 0;
  int call = 0;
  std::sscanf(
      words.after("kill").c_str(), "%d@%d@%d", &victim, &at_step, &call);
  return victim == rank && at_step == step ? call : 0;
}

/// A disk that does not answer for a while.
class SlowDisk {
 public:
  explicit SlowDisk(const Words& words) {
    std::sscanf(
        words.after("slow").c_str(), "%d@%d@%7s", &rank_, &step_, how_.data());
  }

  /// Before a save: the next write waits, if it is the one.
  void before_save(accelerate::Accelerator& accelerator, int step) {
    if (accelerator.process_index() != rank_ || step != step_) {
      return;
    }
    accelerator.wait_for_checkpoint();  // It is the next one's write.
    const std::string how = how_.data();
    if (how == "each") {
      accelerate::slow_down(std::chrono::milliseconds(20));
    } else if (how == "told") {
      accelerate::hold_first_write([] {
        std::string line;
        std::getline(std::cin, line);
      });
    } else {
      accelerate::hold_first_write([this] { trained_.wait(); });
    }
  }

  void after_step(int step) {
    if (step_ > 0 && step == step_ + 3) {
      std::cerr << "trained on" << std::endl;
      trained_.count_down();
    }
  }

 private:
  int rank_ = -1;
  int step_ = -1;
  std::array<char, 8> how_{};
  std::latch trained_{1};
};

// What goes wrong comes with the next call about checkpoints: then again.
void save(accelerate::Accelerator& accelerator, bool blocking) {
  try {
    accelerator.save_state({.blocking = blocking});
  } catch (const accelerate::Error& error) {
    std::cerr << "save failed: " << error.what() << std::endl;
    accelerator.save_state({.blocking = blocking});
  }
}

accelerate::AcceleratorOptions options_of(const Words& words) {
  accelerate::AcceleratorOptions options;
  options.project_config = accelerate::ProjectConfiguration{
      .project_dir = words.after("folder"),
      .automatic_checkpoint_naming = true,
      .total_limit = 2,
      .save_on_each_node = words.has("each_node")};
  if (const int seconds = words.number("timeout", 0); seconds > 0) {
    options.init_process_group_kwargs = accelerate::InitProcessGroupKwargs{
        .timeout = std::chrono::seconds(seconds)};
  }
  return options;
}

int train(const Words& words) {
  accelerate::Accelerator accelerator(options_of(words));
  torch::manual_seed(5);
  torch::nn::Sequential net(
      torch::nn::Linear(4, 16),
      torch::nn::Dropout(0.5),
      torch::nn::Linear(16, 3));
  accelerate::AdamW optimizer(net->parameters(), 0.01);
  accelerator.prepare(net, optimizer);
  const std::int64_t rank = accelerator.process_index();
  // Dropout differs from rank to rank, and from one start to the next.
  torch::manual_seed(words.number("seed", 1) * 100 + rank);
  try {
    accelerator.print("loaded step ", accelerator.load_state().step);
  } catch (const accelerate::IoError&) {
    accelerator.print("nothing to load");
  }

  const int steps = words.number("steps", 4);
  const int every = words.number("every", 0);
  const std::string request = words.after("request");
  SlowDisk disk(words);
  const int first = static_cast<int>(accelerator.step()) + 1;
  for (int step = first; step <= steps; ++step) {
    const auto rows = torch::arange(8, torch::kFloat).view({2, 4});
    const auto loss =
        net->forward(rows.mul(0.1 * step + static_cast<double>(rank)).cos())
            .pow(2)
            .sum();
    if (words.has("losses")) {
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
    if (is_asked(words, rank, step)) {
      ::raise(SIGUSR1);
    }
    if (!request.empty() && accelerator.checkpoint_requested() &&
        request.starts_with("leave")) {
      accelerator.save_state();
      if (request == "leave_or_hang" && rank == 1) {
        ::pause();
      }
      if (request == "leave_or_fail" && rank == 1) {
        throw accelerate::StateError("after the checkpoint");
      }
      accelerator.print("left at step ", step);
      std::printf("rank %d left at step %d\n", static_cast<int>(rank), step);
      return accelerate::kPreemptedExitCode;
    }
    if (every > 0 && step % every == 0) {
      const int call = deadly_call(words, rank, step);
      if (call > 0) {
        accelerator.wait_for_checkpoint();  // It dies in the next one.
        accelerate::kill_at_call(call);
      }
      disk.before_save(accelerator, step);
      save(accelerator, !words.has("background"));
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
    return train(Words(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
