// SPDX-License-Identifier: Apache-2.0
// Checkpoints of ranks with different states.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/local_sgd.h"
#include "accelerate/optim.h"
#include "accelerate/optimizer_state.h"
#include "accelerate/safetensors.h"
#include "checkpoint/parts.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "checkpoint_directory/checkpoints.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "support/tensor_maps.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t kUnevenWidth = 1300;

/// 20 MB of weights, with a buffer after each layer. Two ranks write the
/// weights.
struct UnevenRun {
  explicit UnevenRun(const Group& group)
      : accelerator(
            PartialState(group), {.ddp_kwargs = {.broadcast_buffers = false}}) {
    torch::manual_seed(1);
    for (int i = 0; i < 3; ++i) {
      net->push_back(torch::nn::Linear(kUnevenWidth, kUnevenWidth));
      net->push_back(torch::nn::BatchNorm1d(kUnevenWidth));
    }
    optimizer.emplace(net->parameters(), 0.01);
    accelerator.prepare(net, *optimizer);
  }

  void step() {
    const at::Tensor rows =
        at::rand({4, kUnevenWidth}) + accelerator.process_index() * 10;
    accelerator.backward(net->forward(rows).pow(2).mean());
    optimizer->step();
    optimizer->zero_grad();
  }

  TensorMap weights() const {
    return copies_of(Accelerator::get_state_dict(net));
  }

  Accelerator accelerator;
  torch::nn::Sequential net;
  std::optional<AdamW> optimizer;
};

TEST(UnevenRanks, SaveTheBuffersOfTheMainProcess) {
  const TemporaryDirectory folder;
  TensorMap weights;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    UnevenRun run(group);
    run.step();
    run.accelerator.save_state(folder.path() / "c");
    if (group.rank() == 0) {
      weights = run.weights();
    }
  });
  EXPECT_TRUE(fs::exists(folder.path() / "c/model-00002-of-00002.safetensors"));
  expect_same_tensors(load_sharded(folder.path() / "c"), weights);
}

/// A moving average that only the main process maintains.
struct MainAverage {
  TensorMap state_dict() const { return tensors; }
  void load_state_dict(const TensorMap& now) { tensors = now; }
  TensorMap tensors;
};

TEST(UnevenRanks, SaveRegisteredTensorsOfTheMainProcess) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    Accelerator accelerator(PartialState(group), {});
    MainAverage average;
    if (group.rank() == 0) {
      average.tensors["a"] = at::full({3'000'000}, 1.0);
      average.tensors["b"] = at::full({3'000'000}, 2.0);
    }
    accelerator.register_for_checkpointing(average);
    accelerator.save_state(folder.path() / "c");
    average.tensors.clear();
    accelerator.load_state(folder.path() / "c");
    ASSERT_EQ(average.tensors.size(), 2U);
    EXPECT_EQ(average.tensors.at("b").sum().item<double>(), 6e6);
  });
}

TEST(UnevenRanks, SaveWhatAHookLeavesOnTheMainProcess) {
  const TemporaryDirectory folder;
  TensorMap weights;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    UnevenRun run(group);
    const auto hook = run.accelerator.register_save_state_pre_hook(
        [&](std::vector<TensorMap>& models, const fs::path&) {
          if (group.rank() == 0) {
            models[0].erase("0.weight");
            models[0].at("2.weight") = models[0].at("2.weight").to(at::kHalf);
            weights = models[0];
          } else {
            models[0].erase("4.weight");
          }
        });
    run.accelerator.save_state(folder.path() / "c");
  });
  EXPECT_FALSE(weights.contains("0.weight"));
  expect_same_tensors(
      load_safetensors(folder.path() / "c/model.safetensors"), weights);
}

TEST(UnevenRanks, SaveTheMainProcessInsideLocalSgd) {
  const TemporaryDirectory folder;
  TensorMap weights;
  TensorMap moments;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    UnevenRun run(group);
    run.step();
    LocalSGD local(run.accelerator, *run.net, {.local_sgd_steps = 8});
    run.step();
    local.step();
    run.accelerator.save_state(folder.path() / "c");
    if (group.rank() == 0) {
      weights = run.weights();
      moments = copies_of(optimizer_state(*run.optimizer).tensors);
    }
  });
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    UnevenRun run(group);
    run.accelerator.load_state(folder.path() / "c");
    expect_same_tensors(run.weights(), weights);
    expect_same_tensors(optimizer_state(*run.optimizer).tensors, moments);
  });
}

// The writer checks that the parts fit together before it commits.
TEST(UnevenRanks, SaveNothingWhenTheirTensorsDiffer) {
  const TemporaryDirectory folder;
  run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
    CheckpointWriter writer(group);
    CheckpointContents contents;
    contents.process_index = group.rank();
    contents.num_processes = group.size();
    contents.ranges["optimizer"] = replicated(
        {{"a", at::ones({group.rank() == 2 ? 3'000'000 : 6'000'000})}});
    contents.rank_state["x"] = at::ones({1});
    EXPECT_THAT(
        message_of<StateError>([&] {
          writer.save(contents, {.parent = folder.path(), .name = "c"});
        }),
        HasSubstr("processes have different tensors in `optimizer`: tensor `a` "
                  "is Float[6000000] on rank 0, but Float[3000000] on rank 2"));
    group.barrier();
    EXPECT_TRUE(fs::is_empty(folder.path()));
    group.barrier();  // The next save writes into the folder.
    contents.ranges["optimizer"] = replicated({{"a", at::ones({6'000'000})}});
    writer.save(contents, {.parent = folder.path(), .name = "c"});
  });
  EXPECT_TRUE(fs::exists(folder.path() / "c" / kManifestFile));
}

// If one rank cannot write, all ranks report the error, earlier checkpoints
// remain, and training can continue.
TEST(UnevenRanks, SaveNothingWhenOneCannotWrite) {
  const TemporaryDirectory folder;
  for (const bool blocking : {true, false}) {
    SCOPED_TRACE(blocking);
    run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
      CheckpointWriter writer(group);
      CheckpointContents contents;
      contents.process_index = group.rank();
      contents.num_processes = group.size();
      contents.rank_state["x"] = at::ones({1});
      const Destination to{.parent = folder.path(), .name = "c"};
      contents.step = 1;
      writer.save(contents, to);
      contents.step = 2;
      const fs::path taken = writer.open_for_hooks(to).parent_path();
      if (group.rank() == 0) {
        fs::create_directory(taken / rank_file_name(1));
      }
      group.barrier();
      EXPECT_THAT(
          message_of<IoError>([&] {
            if (blocking) {
              writer.save(contents, to);
            } else {
              writer.save_in_background(contents, to);
              writer.wait();
            }
          }),
          testing::AllOf(
              HasSubstr(
                  "cannot save a checkpoint to " +
                  (folder.path() / "c").string()),
              HasSubstr("\n  rank 1: "),
              HasSubstr("rank-00001.safetensors: File exists")));
      EXPECT_EQ(load_checkpoint(folder.path() / "c", group, true).step, 1);
      writer.save(contents, to);
      EXPECT_EQ(load_checkpoint(folder.path() / "c", group, true).step, 2);
      group.barrier();
    });
  }
}

/// Two ranks, each on a node with its own folder.
class Nodes {
 public:
  explicit Nodes(const Group& group)
      : writer_({*alone(group), group}), rank_(group.rank()) {}

  static std::optional<Group> alone(const Group& group) {
    std::optional<Group> own_group;
    for (int rank = 0; rank < group.size(); ++rank) {
      if (auto subgroup = group.subgroup({rank})) {
        own_group = std::move(subgroup);
      }
    }
    return own_group;
  }

  SaveResult save(
      const fs::path& parent,
      std::int64_t step,
      const std::string& held = "optimizer") {
    CheckpointContents contents;
    contents.ranges[held] = replicated({{"a", at::ones({3})}});
    contents.step = step;
    contents.process_index = rank_;
    contents.num_processes = 2;
    contents.rank_state["x"] = at::ones({1});
    Destination to;
    to.parent = parent;
    to.numbered = true;
    to.keep = 1;
    writer_.choose_number(to);
    return writer_.save(contents, to);
  }

 private:
  CheckpointWriter writer_;
  int rank_;
};

TEST(SaveOnEachNode, UsesOneNumberAndOneResultOnAllNodes) {
  const TemporaryDirectory folder;
  const auto node = [&](int rank) {
    return folder.path() / ("node_" + std::to_string(rank));
  };
  // An earlier run saved more checkpoints on node 1.
  CheckpointContents earlier;
  earlier.rank_state["x"] = at::ones({1});
  CheckpointWriter(Group()).save(
      earlier,
      {.parent = node(1),
       .name = "checkpoint_4",
       .numbered = true,
       .iteration = 4});
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    Nodes nodes(group);
    const fs::path node_folder = node(group.rank());
    EXPECT_EQ(nodes.save(node_folder, 1).path, node_folder / "checkpoint_5");

    // Node 1 cannot write, so no node has the next checkpoint, and each node
    // still has the last one.
    if (group.rank() == 1) {
      fs::rename(node_folder, folder.path() / "away");
      std::ofstream(node_folder) << "no folder";
    }
    group.barrier();
    EXPECT_THAT(
        message_of<IoError>([&] { nodes.save(node_folder, 2); }),
        HasSubstr("rank 1:"));
    if (group.rank() == 0) {
      EXPECT_TRUE(fs::exists(node_folder / "checkpoint_5" / kManifestFile));
      EXPECT_FALSE(fs::exists(node_folder / "checkpoint_6"));
    } else {
      fs::remove(node_folder);
      fs::rename(folder.path() / "away", node_folder);
    }
    group.barrier();
    EXPECT_EQ(nodes.save(node_folder, 3).path, node_folder / "checkpoint_6");
    EXPECT_EQ(
        load_checkpoint(node_folder / "checkpoint_6", group, false).step, 3);
  });
}

TEST(SaveOnEachNode, FailsOnAllNodesWhenTheTensorsOfOneDiffer) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    const fs::path node_folder =
        folder.path() / ("node_" + std::to_string(group.rank()));
    Nodes nodes(group);
    EXPECT_THAT(
        message_of<StateError>([&] {
          nodes.save(
              node_folder, 1, group.rank() == 0 ? "optimizer" : "optimizer_1");
        }),
        HasSubstr("processes have different tensors in `optimizer`: tensor `a` "
                  "is Float[3] on rank 0, but missing on rank 1"));
    EXPECT_TRUE(fs::is_empty(node_folder));
  });
}

TEST(SaveOnEachNode, RefusesToLoadCheckpointsOfDifferentSaves) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    const fs::path node_folder =
        folder.path() / ("node_" + std::to_string(group.rank()));
    CheckpointWriter writer(*Nodes::alone(group));
    CheckpointContents contents;
    contents.step = group.rank() == 0 ? 5 : 7;
    contents.process_index = group.rank();
    contents.num_processes = 2;
    contents.rank_state["x"] = at::ones({1});
    writer.save(contents, {.parent = node_folder, .name = "c"});
    group.barrier();
    EXPECT_THAT(
        message_of<FormatError>(
            [&] { load_checkpoint(node_folder / "c", group, false); }),
        HasSubstr("is not the same on all nodes: rank 0 has step 5, "
                  "iteration 0 and world size 2, but rank 1 has step 7"));
  });
}

}  // namespace
}  // namespace accelerate
