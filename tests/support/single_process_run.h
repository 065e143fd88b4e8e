// SPDX-License-Identifier: Apache-2.0
// A training run in one process, and helpers for its checkpoints.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/optim.h"

namespace accelerate {

namespace fs = std::filesystem;

/// A run in one process. Its model spans several memory pages.
class SingleProcessRun {
 public:
  explicit SingleProcessRun(const fs::path& folder, std::int64_t width = 160)
      : accelerator(
            PartialState(Group()),
            {.project_config =
                 ProjectConfiguration{
                     .project_dir = folder,
                     .automatic_checkpoint_naming = true}}),
        net(width, 30),
        optimizer(net->parameters(), 0.1) {
    accelerator.prepare(net, optimizer);
  }

  void step() {
    const auto width = net->weight.size(1);
    accelerator.backward(net->forward(torch::ones({2, width})).sum());
    optimizer.step();
    optimizer.zero_grad();
  }

  Accelerator accelerator;
  torch::nn::Linear net;
  AdamW optimizer;
};

inline fs::path save_one_checkpoint(const fs::path& folder) {
  SingleProcessRun run(folder);
  run.step();
  return run.accelerator.save_state();
}

inline std::vector<std::string> files_of(const fs::path& checkpoint) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline void flip_bit(const fs::path& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

}  // namespace accelerate
