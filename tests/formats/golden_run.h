// SPDX-License-Identifier: Apache-2.0
// The run whose checkpoints are in tests/formats/checkpoints.
#pragma once

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/data_loader.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "accelerate/tensor_map.h"

namespace accelerate {

struct GoldenData {
  std::size_t size() const { return 24; }
  TensorMap get(std::size_t index) const {
    return {{"x", at::arange(3, at::kFloat).add(static_cast<double>(index))}};
  }
};

/// One rank of the run, with a model, AdamW, a scheduler, a shuffled loader and
/// a registered value.
class GoldenRun {
 public:
  GoldenRun(PartialState state, const std::filesystem::path& folder)
      : accelerator(
            std::move(state),
            {.gradient_accumulation_steps = 2,
             .project_config =
                 ProjectConfiguration{
                     .project_dir = folder,
                     .automatic_checkpoint_naming = true}}),
        net(3, 2),
        optimizer(net->parameters(), 0.1),
        scheduler(optimizer, {.step_size = 1, .gamma = 0.5}),
        loader(GoldenData{}, {.batch_size = 2, .shuffle = true, .seed = 5}) {
    const at::NoGradGuard guard;
    net->weight.copy_(at::arange(6, at::kFloat).view({2, 3}).mul(0.1));
    net->bias.zero_();
    accelerator.prepare(net, optimizer, scheduler, loader);
    accelerator.register_for_checkpointing(*this);
  }

  /// Trains for `micro_steps` micro-steps of the first epoch and saves a
  /// checkpoint after each micro-step.
  void train(int micro_steps) {
    for (auto& batch : loader) {
      auto region = accelerator.accumulate();
      accelerator.backward(net->forward(batch["x"]).pow(2).mean());
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      value += 1;
      accelerator.save_state();
      if (--micro_steps == 0) {
        return;
      }
    }
  }

  Json state_dict() const { return Json(value); }
  void load_state_dict(const Json& state) { value = state.as_integer(); }

  Accelerator accelerator;
  torch::nn::Linear net;
  AdamW optimizer;
  StepLR scheduler;
  DataLoader<GoldenData> loader;
  std::int64_t value = 0;
};

}  // namespace accelerate
