// SPDX-License-Identifier: Apache-2.0
// Trains in two processes that the program itself starts, without `accelerate
// launch`. The same code works in a cell of a C++ notebook.
//
//     build/bin/examples/notebook_launcher
#include <iostream>
#include <tuple>

#include <accelerate/accelerate.h>
#include <accelerate/launchers.h>

#include <torch/nn.h>
#include <torch/optim.h>

namespace {

// region: function
// Learns y = 3 x; each process sees its own points.
void training_function(int epochs, double learning_rate) {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42, {.device_specific = true});
  torch::nn::Linear model(1, 1);
  torch::optim::SGD optimizer(model->parameters(), learning_rate);
  accelerator.prepare(model, optimizer);

  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto x = torch::rand({32, 1});
    const auto loss = torch::mse_loss(model->forward(x), 3 * x);
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  accelerator.print(
      accelerator.num_processes(),
      " processes learned ",
      model->weight.item<float>());
}
// endregion

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    std::cerr << "this example has no options\n";
    return 2;
  }
  // region: launch
  accelerate::notebook_launcher(
      training_function, std::tuple(300, 0.5), {.num_processes = 2});
  // endregion
}
