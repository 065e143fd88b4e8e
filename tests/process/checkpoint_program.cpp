// SPDX-License-Identifier: Apache-2.0
// A training program that continues where its last checkpoint was saved.
//
//     checkpoint_program folder=PATH [steps=N] [every=N] [background]
//                        [request=leave|stay] [kill=RANK@STEP@CALL]
//                        [ask=RANK@STEP] [each_node] [losses]
//
// `every` saves after so many steps. When it is asked to (SIGTERM, SIGUSR1) it
// saves and leaves, or does not care; with `ask` one rank is asked in that
// step. `kill` ends a rank in its save after that step, at that call to the
// file system. `losses` prints the loss of every step to the last bit.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
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

int train(const Words& words) {
  accelerate::Accelerator accelerator(
      {.project_config = accelerate::ProjectConfiguration{
           .project_dir = words.after("folder"),
           .automatic_checkpoint_naming = true,
           .total_limit = 2,
           .save_on_each_node = words.has("each_node")}});
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
        request == "leave") {
      accelerator.save_state();
      accelerator.print("left at step ", step);
      std::printf("rank %d left at step %d\n", static_cast<int>(rank), step);
      return 0;
    }
    if (every > 0 && step % every == 0) {
      const int call = deadly_call(words, rank, step);
      if (call > 0) {
        accelerator.wait_for_checkpoint();  // It dies in the next one.
        accelerate::kill_at_call(call);
      }
      accelerator.save_state({.blocking = !words.has("background")});
    }
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
