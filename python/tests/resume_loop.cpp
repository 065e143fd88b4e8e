// SPDX-License-Identifier: Apache-2.0
// Resumes in the middle of an epoch that `test_cpp.py` started in Python and
// finishes the epoch, with the same loader and scheduler.
//
//     resume_loop <checkpoint to load> <checkpoint to save>
#include <cstdint>

#include <accelerate/accelerate.h>

#include <torch/nn.h>

struct Samples {
  std::int64_t size() const { return 48; }
  at::Tensor get(std::int64_t i) const {
    return torch::tensor(
        {static_cast<float>(i) / 48,
         static_cast<float>(i * 7 % 48) / 48,
         static_cast<float>(i * 11 % 48) / 48});
  }
};

int main(int, char** argv) {
  accelerate::Accelerator accelerator(
      {.cpu = true,
       .scheduler_unit = accelerate::SchedulerUnit::per_optimizer_step});
  torch::nn::Sequential model(
      torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1));
  accelerate::AdamW optimizer(model->parameters(), 0.9);
  accelerate::StepLR scheduler(optimizer, {.step_size = 2, .gamma = 0.5});
  accelerate::DataLoader loader(
      Samples(),
      {.batch_size = 8 / accelerator.num_processes(), .shuffle = true});
  accelerator.prepare(model, optimizer, scheduler, loader);
  accelerator.load_state(argv[1]);
  for (auto& x : loader) {
    accelerator.backward(model->forward(x).pow(2).mean());
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    accelerator.print(x.sum().item<float>());
  }
  accelerator.save_state(argv[2]);
}
