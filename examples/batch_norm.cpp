// SPDX-License-Identifier: Apache-2.0
// Batch norm with the statistics of all processes.
//
//     build/bin/examples/batch_norm
#include <iostream>

#include <accelerate/accelerator.h>
#include <accelerate/accelerator_nests.h>
#include <accelerate/launchers.h>

#include <torch/nn.h>
#include <torch/optim.h>

namespace {

// The rows of this process, which differ between processes.
at::Tensor rows_of(const accelerate::Accelerator& accelerator) {
  const auto rank = static_cast<double>(accelerator.process_index());
  return at::arange(12).view({4, 3}).add(10 * rank).sin().add(rank);
}

void train() {
  accelerate::Accelerator accelerator({.cpu = true});
  // region: convert
  torch::nn::BatchNorm1d norm(3);
  torch::nn::Sequential model(
      torch::nn::Linear(3, 3),
      norm,
      torch::nn::ReLU(),
      torch::nn::Linear(3, 1));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  accelerator.convert_sync_batchnorm(model);
  accelerator.prepare(model, optimizer);
  // endregion

  for (int step = 0; step < 3; ++step) {
    accelerator.backward(model->forward(rows_of(accelerator)).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  const at::Tensor means = accelerator.gather(norm->running_mean.view({1, 3}));
  accelerator.print(
      "running means are ",
      means[0].equal(means[1]) ? "equal" : "different",
      " on both processes");
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    std::cerr << "this example has no options\n";
    return 2;
  }
  accelerate::debug_launcher(train, {.num_processes = 2});
}
