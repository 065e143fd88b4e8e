// SPDX-License-Identifier: Apache-2.0
// Resumes a run that `test_cpp.py` saved in Python: trains one step, then
// prints the parameters.
#include <iostream>

#include <accelerate/accelerate.h>

#include <torch/nn.h>

struct Model : torch::nn::Module {
  Model() {
    first = register_module("first", torch::nn::Linear(3, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    last = register_module("last", torch::nn::Linear(4, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return last->forward(norm->forward(first->forward(x)).tanh());
  }
  torch::nn::Linear first = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
  torch::nn::Linear last = nullptr;
};

int main(int, char** argv) {
  accelerate::Accelerator accelerator({.cpu = true});
  auto model = std::make_shared<Model>();
  accelerate::AdamW optimizer(model->parameters(), 0.9);
  accelerator.prepare(model, optimizer);
  const auto report = accelerator.load_state(argv[1]);
  accelerator.backward(model->forward(at::ones({4, 3})).pow(2).sum());
  optimizer.step();
  std::cout << report.step << "\n";
  for (const auto& item : model->named_parameters()) {
    std::cout << item.key() << " " << item.value().sum().item<float>() << "\n";
  }
  accelerator.save_state(argv[2]);
}
