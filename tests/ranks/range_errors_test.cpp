// SPDX-License-Identifier: Apache-2.0
// Ranges that cannot be saved or loaded.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "checkpoint_directory/manifest.h"
#include "support/message_of.h"
#include "support/ranged_state.h"
#include "support/run_on_ranks.h"
#include "support/single_process_run.h"
#include "support/temporary_directory.h"
#include "support/tensor_maps.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(RequestedRanges, ThatDoNotExistAreReportedOnEveryRank) {
  const TemporaryDirectory folder;
  const TensorMap state = whole_state();
  run_on_ranks(3, quick(Backend::fake), [&](Group& group) {
    CheckpointWriter(group).save(
        contents_of(group, equal_parts(state, group.rank(), 3)),
        {.parent = folder.path(), .name = "c"});
    const auto load = [&](const RangeRequest& wrong) {
      return message_of<ArgumentError>([&] {
        load_checkpoint(
            folder.path() / "c",
            group,
            true,
            [&](const std::string&, const auto& saved) {
              return group.rank() == 1 ? std::vector{wrong}
                                       : request_parts(saved, 0, 1);
            });
      });
    };
    const std::string start =
        "rank 1 cannot load its part of " + (folder.path() / "c").string();
    EXPECT_EQ(load({"x", 0, 1}), start + ": `optimizer` has no tensor `x`");
    EXPECT_EQ(
        load({"e.mask", 60, 5}),
        start +
            ": elements [60, 65) of tensor `e.mask` in `optimizer` were "
            "requested, but the tensor has only elements [0, 64)");
    group.barrier();  // The process group is still usable.
  });
}

class DamagedRanges : public testing::TestWithParam<bool> {};

// Every byte is verified, although each rank reads only one element.
TEST_P(DamagedRanges, AreReportedOnEveryRankAlthoughNoRankRequestsThem) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = folder.path() / "c";
  const TensorMap state = whole_state();
  run_on_ranks(3, quick(Backend::fake), [&](Group& group) {
    CheckpointWriter(group).save(
        contents_of(group, equal_parts(state, group.rank(), 3)),
        {.parent = folder.path(), .name = "c"});
  });
  int damaged = 0;
  for (const std::string& name : files_of(checkpoint)) {
    if (!name.starts_with("optimizer-")) {
      continue;
    }
    SCOPED_TRACE(name);
    flip_bit(checkpoint / name, fs::file_size(checkpoint / name) - 1);
    run_on_ranks(2, quick(Backend::fake), [&](Group& group) {
      EXPECT_THAT(
          message_of<FormatError>([&] {
            load_checkpoint(
                checkpoint,
                group,
                GetParam(),
                [](const std::string&, const auto&) {
                  return std::vector<RangeRequest>{{"a.exp_avg", 5, 1}};
                });
          }),
          HasSubstr(name + " has checksum "));
    });
    flip_bit(checkpoint / name, fs::file_size(checkpoint / name) - 1);
    ++damaged;
  }
  EXPECT_EQ(damaged, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    DamagedRanges,
    testing::Values(true, false),
    [](const auto& test) { return test.param ? "Shared" : "NotShared"; });

/// Ranges that do not cover the tensors exactly once.
struct WrongRanges {
  const char* name;
  std::function<std::vector<TensorRange>(const TensorMap& state, int rank)>
      ranges;
  const char* text;
};

std::vector<WrongRanges> wrong_ranges() {
  return {
      {"Gap",
       [](const auto& state, int rank) {
         return rank == 2 ? std::vector<TensorRange>()
                          : equal_parts(state, rank, 3);
       },
       "no rank has elements [2000, 3000) of tensor `a.exp_avg` in "
       "`optimizer`: rank 1 has elements [1000, 2000)"},
      {"Overlap",
       [](const auto& state, int rank) {
         std::vector<TensorRange> ranges = equal_parts(state, rank, 3);
         if (rank == 1) {
           ranges[0] = range_of(state, "a.exp_avg", 999, 2000);
         }
         return ranges;
       },
       "rank 0 has elements [0, 1000) of tensor `a.exp_avg` in `optimizer`, "
       "and rank 1 has elements [999, 2000)"},
      {"OtherShape",
       [](const auto& state, int rank) {
         std::vector<TensorRange> ranges = equal_parts(state, rank, 3);
         if (rank == 2) {
           ranges[0].shape = {3000};
         }
         return ranges;
       },
       "tensor `a.exp_avg` in `optimizer` is Float[1000, 3] on rank 0, but "
       "Float[3000] on rank 2"},
      {"ReplicatedTensorMissing",
       [](const auto& state, int rank) {
         return rank == 1 ? std::vector<TensorRange>() : replicated(state);
       },
       "processes have different tensors in `optimizer`: tensor `a.exp_avg` is "
       "Float[1000, 3] on rank 0, but missing on rank 1"}};
}

class RefusedRanges : public testing::TestWithParam<WrongRanges> {};

TEST_P(RefusedRanges, SaveNothingOnAnyRank) {
  const TemporaryDirectory folder;
  const TensorMap state = whole_state();
  const Destination to{.parent = folder.path(), .name = "c"};
  run_on_ranks(3, quick(Backend::fake), [&](Group& group) {
    CheckpointWriter writer(group);
    const CheckpointContents wrong =
        contents_of(group, GetParam().ranges(state, group.rank()));
    for (const bool blocking : {true, false}) {
      EXPECT_THAT(
          message_of<StateError>([&] {
            if (blocking) {
              writer.save(wrong, to);
            } else {
              writer.save_in_background(wrong, to);
              writer.wait();
            }
          }),
          testing::StartsWith(
              "cannot save a checkpoint to " + (folder.path() / "c").string() +
              ": " + GetParam().text));
      group.barrier();
      EXPECT_TRUE(fs::is_empty(folder.path()));
      group.barrier();
    }
    writer.save(contents_of(group, equal_parts(state, group.rank(), 3)), to);
  });
  EXPECT_TRUE(fs::exists(folder.path() / "c" / kManifestFile));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    RefusedRanges,
    testing::ValuesIn(wrong_ranges()),
    [](const auto& test) { return test.param.name; });

// Each node writes its own checkpoint, so the ranks of a node must have all
// ranges.
TEST(SaveOnEachNode, RefusesOnAllNodesIfOneLacksRanges) {
  const TemporaryDirectory folder;
  const TensorMap state = whole_state();
  run_on_ranks(4, quick(Backend::fake), [&](Group& group) {
    const int node = group.rank() / 2;
    const auto first = group.subgroup({0, 1});
    const auto second = group.subgroup({2, 3});
    const std::vector<int> all = {0, 1, 2, 3};
    CheckpointWriter writer(
        {node == 0 ? *first : *second, *group.subgroup(all)});
    const Destination to{
        .parent = folder.path() / ("node_" + std::to_string(node)),
        .name = "c"};

    // Node 0 has both halves, node 1 has the first half twice.
    EXPECT_THAT(
        message_of<StateError>([&] {
          writer.save(
              contents_of(
                  group, equal_parts(state, group.rank() == 1 ? 1 : 0, 2)),
              to);
        }),
        HasSubstr("no rank has elements [1500, 3000) of tensor `a.exp_avg` in "
                  "`optimizer`: rank 2 has elements [0, 1500)"));
    group.barrier();
    EXPECT_TRUE(fs::is_empty(to.parent));
    group.barrier();

    writer.save(
        contents_of(group, equal_parts(state, group.rank() % 2, 2)), to);
    expect_same_tensors(
        load_checkpoint(to.parent / "c", group, false).ranges.at("optimizer"),
        state);
  });
}

}  // namespace
}  // namespace accelerate
