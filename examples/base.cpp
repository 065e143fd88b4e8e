// SPDX-License-Identifier: Apache-2.0
// Trains a small classifier on any number of processes: a plain LibTorch loop
// and the four marked lines.
//
//     cd build/bin
//     ./accelerate launch --cpu --num_processes 2 examples/base
//
// Run it without a launcher and it trains on one process.
#include <cmath>
#include <cstdint>

#include <accelerate/accelerate.h>

#include <torch/data/example.h>
#include <torch/nn.h>
#include <torch/optim.h>

namespace {

// Points of a spiral: which of the two arms do they belong to?
struct Spiral {
  std::int64_t size() const { return 2000; }
  torch::data::Example<> get(std::int64_t index) const {
    const double t = 0.5 + static_cast<double>(index / 2 % 1000) / 100;
    const double arm = index % 2 == 0 ? 0 : M_PI;
    return {
        torch::tensor({t * std::cos(t + arm), t * std::sin(t + arm)}).div(10),
        torch::tensor(index % 2)};
  }
};

torch::nn::Sequential make_model() {
  return torch::nn::Sequential(
      torch::nn::Linear(2, 64),
      torch::nn::Tanh(),
      torch::nn::Linear(64, 64),
      torch::nn::Tanh(),
      torch::nn::Linear(64, 2));
}

}  // namespace

// region: loop
int main() {
  accelerate::Accelerator accelerator;  // added
  accelerate::set_seed(42);

  accelerate::DataLoader train_dataloader(
      Spiral(), {.batch_size = 25, .shuffle = true});
  accelerate::DataLoader eval_dataloader(Spiral(), {.batch_size = 64});
  auto model = make_model();
  accelerate::AdamW optimizer(model->parameters(), 1e-2);

  accelerator.prepare(
      train_dataloader, eval_dataloader, model, optimizer);  // added

  const int num_epochs = 30;
  accelerate::tqdm progress_bar(num_epochs * train_dataloader.size());
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    model->train();
    for (auto& batch : train_dataloader) {
      const auto logits = model->forward(batch.data);
      const auto loss =
          torch::nn::functional::cross_entropy(logits, batch.target);
      accelerator.backward(loss);  // replaced

      optimizer.step();
      optimizer.zero_grad();
      progress_bar.update(1);
    }
  }
  // endregion

  model->eval();
  const torch::NoGradGuard no_grad;
  std::int64_t correct = 0;
  std::int64_t seen = 0;
  for (auto& batch : eval_dataloader) {
    const auto hits = model->forward(batch.data).argmax(1).eq(batch.target);
    const auto all = accelerator.gather_for_metrics(hits);  // added
    correct += all.sum().item<std::int64_t>();
    seen += all.size(0);
  }
  accelerator.print(
      "accuracy on ", seen, " points: ", 100 * correct / seen, " %");
}
