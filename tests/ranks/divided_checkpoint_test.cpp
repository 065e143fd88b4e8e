// SPDX-License-Identifier: Apache-2.0
// Checkpoints of states that are so large that all ranks write parts of them.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "accelerate/optimizer_state.h"
#include "accelerate/safetensors.h"
#include "base/files.h"
#include "checkpoint_directory/manifest.h"
#include "checkpoint_directory/tensor_table.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/single_process_run.h"
#include "support/temporary_directory.h"
#include "support/tensor_maps.h"

namespace accelerate {
namespace {

/// 29 MB of weights and twice as much optimizer state.
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

TEST(DividedCheckpoint, IsWrittenByAllRanksAndReadByAnyNumber) {
  const TemporaryDirectory folder;
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
      weights = copies_of(Accelerator::get_state_dict(run.net));
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
  // `from_pretrained` reads this file.
  expect_same_tensors(load_sharded(folder.path() / "c"), weights);

  for (const int size : {1, 2, 4}) {
    run_on_ranks(size, quick(Backend::shm), [&](Group& group) {
      LargeRun run(group);
      run.accelerator.load_state(folder.path() / "c");
      expect_same_tensors(Accelerator::get_state_dict(run.net), weights);
      expect_same_tensors(
          optimizer_state(run.optimizer).tensors, state.tensors);
      run.accelerator.save_state(
          folder.path() / ("at_" + std::to_string(size)));
    });
    // Different files and ranges, but the same state.
    for (const auto& [name, description] : compare_checkpoints(
             folder.path() / "c",
             folder.path() / ("at_" + std::to_string(size)))) {
      EXPECT_THAT(name, testing::StartsWith("rank-")) << description;
    }
  }
}

class DividedDamage : public testing::Test {
 protected:
  void SetUp() override {
    run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
      LargeRun run(group);
      run.step();
      run.accelerator.save_state(checkpoint_);
    });
  }

  /// Expects an error with `text` on every rank, and no change to the state of
  /// any rank.
  void expect_refused(const std::string& text) const {
    run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
      LargeRun run(group);
      const TensorMap before = copies_of(Accelerator::get_state_dict(run.net));
      EXPECT_THAT(
          message_of<Error>([&] { run.accelerator.load_state(checkpoint_); }),
          testing::HasSubstr(text));
      expect_same_tensors(Accelerator::get_state_dict(run.net), before);
      EXPECT_TRUE(optimizer_state(run.optimizer).tensors.empty());
      EXPECT_EQ(run.accelerator.step(), 0);
    });
  }

  const TemporaryDirectory folder_;
  const std::filesystem::path checkpoint_ = folder_.path() / "c";
};

TEST_F(DividedDamage, InAnyPartIsReportedOnEveryRank) {
  int damaged = 0;
  for (const std::string& name : files_of(checkpoint_)) {
    SCOPED_TRACE(name);
    const auto bytes = std::filesystem::file_size(checkpoint_ / name);
    if (bytes < (1 << 20)) {
      continue;
    }
    // Damages the header, the middle of a piece, and the end.
    for (const std::uintmax_t at :
         {std::uintmax_t{100}, bytes / 2, bytes - 1}) {
      flip_bit(checkpoint_ / name, at);
      expect_refused(name);
      flip_bit(checkpoint_ / name, at);
    }
    ++damaged;
  }
  EXPECT_EQ(damaged, 6);
}

TEST_F(DividedDamage, TruncatedOrMissingPartIsReportedOnEveryRank) {
  const auto part = checkpoint_ / "optimizer-00002-of-00003.safetensors";
  std::filesystem::copy_file(part, folder_.path() / "kept");
  std::filesystem::resize_file(part, 3 << 20);
  expect_refused("optimizer-00002-of-00003.safetensors");
  std::filesystem::remove(part);
  expect_refused("optimizer-00002-of-00003.safetensors");

  // Removes the part from the manifest as well.
  Manifest manifest = read_manifest(checkpoint_);
  manifest.files.erase("optimizer-00002-of-00003.safetensors");
  write_file(checkpoint_ / kManifestFile, manifest.to_json());
  expect_refused("does not have all parts of `optimizer`");
}

}  // namespace
}  // namespace accelerate
