// SPDX-License-Identifier: Apache-2.0
// A training program like that a user could write: a least-squares fit. The
// result is the same for any number of processes that divides the batch size.
//
//     training_program [pause=MS] [mark=PATH] [throw=RANK@STEP]
//                      [stall=RANK@STEP]
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <accelerate/accelerate.h>

#include <torch/data/example.h>
#include <torch/nn.h>
#include <torch/optim.h>

namespace {

constexpr std::int64_t kRows = 240;
constexpr std::int64_t kBatch = 24;

struct Waves {
  std::int64_t size() const { return kRows; }
  torch::data::Example<> get(std::int64_t index) const {
    const auto x =
        torch::arange(4, torch::kDouble).add(static_cast<double>(index)).sin();
    return {x, x.sum().mul(0.5).add(0.25)};
  }
};

// The value after `name=` among the program's arguments; empty if missing.
std::string option(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(name + "=")) {
      return argument.substr(name.size() + 1);
    }
  }
  return "";
}

std::string rank_and_step(std::int64_t rank, int step) {
  return std::to_string(rank) + "@" + std::to_string(step);
}

std::string numbers_of(const torch::Tensor& tensor) {
  std::ostringstream text;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    text << " " << std::fixed << std::setprecision(9)
         << tensor.flatten()[i].item<double>();
  }
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  accelerate::Accelerator accelerator;
  const auto rank = accelerator.process_index();
  const auto pause = std::atol(option(argc, argv, "pause").c_str());
  const std::string mark = option(argc, argv, "mark");

  accelerate::DataLoader loader(
      Waves(), {.batch_size = kBatch / accelerator.num_processes()});
  torch::nn::Linear model(4, 1);
  model->to(torch::kDouble);
  torch::nn::init::zeros_(model->weight);
  torch::nn::init::zeros_(model->bias);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  accelerator.prepare(loader, model, optimizer);

  if (rank == 0) {
    std::cerr << accelerator.num_processes() << " processes over "
              << accelerate::PartialState().backend() << std::endl;
  }
  int step = 0;
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (auto& batch : loader) {
      ++step;
      if (rank_and_step(rank, step) == option(argc, argv, "throw")) {
        throw std::runtime_error("the loss is not a number");
      }
      if (rank_and_step(rank, step) == option(argc, argv, "stall")) {
        std::this_thread::sleep_for(std::chrono::seconds(60));
      }
      const auto loss = torch::nn::functional::mse_loss(
          model->forward(batch.data).flatten(), batch.target);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      if (step == 5 && !mark.empty()) {
        std::ofstream(mark + std::to_string(rank)) << step << "\n";
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }
  accelerator.print(
      step, " steps:", numbers_of(model->weight), numbers_of(model->bias));
}
