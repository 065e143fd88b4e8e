// SPDX-License-Identifier: Apache-2.0
// States that are large enough to be written by all ranks.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/optim.h"
#include "accelerate/optimizer_state.h"
#include "accelerate/safetensors.h"
#include "folders/tensor_table.h"
#include "support/run_on_ranks.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

/// 29 MB of weights and twice that of optimizer state.
struct LargeRun {
  explicit LargeRun(const Group& group)
      : accelerator(PartialState(group), {}), net(make_net()) {
    accelerator.prepare(net, optimizer);
  }

  void step() {
    accelerator.backward(net->forward(at::ones({1, 1100})).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }

  static torch::nn::Sequential make_net() {
    torch::nn::Sequential net;
    for (int i = 0; i < 6; ++i) {
      net->push_back(torch::nn::Linear(1100, 1100));
    }
    return net;
  }

  Accelerator accelerator;
  torch::nn::Sequential net;
  AdamW optimizer{net->parameters(), 0.01};
};

void expect_same(const TensorMap& ours, const TensorMap& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) {
    EXPECT_TRUE(at::equal(ours.at(name), tensor)) << name;
  }
}

TEST(DividedCheckpoint, IsWrittenByAllRanksAndReadByAnyNumber) {
  const TemporaryFolder folder;
  TensorMap weights;
  OptimizerState state;
  run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
    LargeRun run(group);
    run.step();
    for (const bool blocking : {true, false}) {
      run.accelerator.save_state(folder.path() / "c", {.blocking = blocking});
    }
    run.accelerator.wait_for_checkpoint();
    if (group.rank() == 0) {
      for (auto& [name, tensor] : Accelerator::get_state_dict(run.net)) {
        weights[name] = tensor.detach().clone();
      }
      state = optimizer_state(run.optimizer);
    }
  });
  for (const char* name : {"model", "optimizer"}) {
    for (const char* part : {"-00001", "-00002", "-00003"}) {
      EXPECT_TRUE(std::filesystem::exists(
          folder.path() / "c" /
          (std::string(name) + part + "-of-00003.safetensors")))
          << name << part;
    }
  }
  // What `from_pretrained` reads.
  expect_same(load_sharded(folder.path() / "c"), weights);

  for (const int size : {1, 2, 4}) {
    run_on_ranks(size, quick(Backend::shm), [&](Group& group) {
      LargeRun run(group);
      run.accelerator.load_state(folder.path() / "c");
      expect_same(Accelerator::get_state_dict(run.net), weights);
      expect_same(optimizer_state(run.optimizer).tensors, state.tensors);
      run.accelerator.save_state(
          folder.path() / ("at_" + std::to_string(size)));
    });
    // Other files and other ranges, the same state.
    for (const auto& [name, what] : compare_checkpoints(
             folder.path() / "c",
             folder.path() / ("at_" + std::to_string(size)))) {
      EXPECT_THAT(name, testing::StartsWith("rank-")) << what;
    }
  }
}

}  // namespace
}  // namespace accelerate
