// SPDX-License-Identifier: Apache-2.0
// Tensors whose ranges are divided among ranks in different ways: the
// conformance test for `CheckpointContents::ranges`.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "checkpoint_directory/manifest.h"
#include "checkpoint_directory/tensor_table.h"
#include "support/ranged_state.h"
#include "support/run_on_ranks.h"
#include "support/single_process_run.h"
#include "support/temporary_directory.h"
#include "support/tensor_maps.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using Ranges = std::vector<TensorRange>;

/// Rank 0 has a small part, and rank 1 has the rest. `c.step` is only on rank
/// 1.
Ranges uneven_ranges(const TensorMap& state, const int rank) {
  if (rank == 0) {
    return {
        range_of(state, "a.exp_avg", 0, 1001),
        range_of(state, "b.exp_avg", 0, 1),
        range_of(state, "d.none", 0, 0),
        range_of(state, "e.mask", 0, 64)};
  }
  return {
      range_of(state, "b.exp_avg", 1, 777),
      range_of(state, "c.step", 0, 1),
      range_of(state, "a.exp_avg", 1001, 3000),
      range_of(state, "e.mask", 64, 64)};
}

/// Each rank has every `size`-th piece of 100 elements of each tensor.
Ranges interleaved(const TensorMap& state, const int rank, const int size) {
  Ranges ranges;
  for (const auto& [name, tensor] : state) {
    ranges.push_back(range_of(state, name, 0, 0));
    for (std::int64_t first = 100 * rank; first < tensor.numel();
         first += 100 * size) {
      ranges.push_back(
          range_of(state, name, first, std::min(first + 100, tensor.numel())));
    }
  }
  return ranges;
}

/// A way to divide the tensors among the ranks that save them.
struct Division {
  const char* name;
  int size;
  std::function<Ranges(const TensorMap& state, int rank)> ranges;
};

std::vector<Division> divisions() {
  return {
      {"Replicated1",
       1,
       [](const auto& state, int) { return replicated(state); }},
      {"Replicated3",
       3,
       [](const auto& state, int) { return replicated(state); }},
      {"EqualParts4",
       4,
       [](const auto& state, int rank) { return equal_parts(state, rank, 4); }},
      {"Uneven2", 2, uneven_ranges},
      {"OnlyOnRank1",
       3,
       [](const auto& state, int rank) {
         return rank == 1 ? equal_parts(state, 0, 1) : Ranges();
       }},
      {"Interleaved3",
       3,
       [](const auto& state, int rank) { return interleaved(state, rank, 3); }},
      {"TwoCopiesOfTwoParts",
       4,
       [](const auto& state, int rank) {
         return equal_parts(state, rank % 2, 2);
       }},
      {"PartlyReplicated2", 2, [](const auto& state, int rank) {
         TensorMap rest = state;
         const TensorMap shared = {{"b.exp_avg", rest.at("b.exp_avg")}};
         rest.erase("b.exp_avg");
         Ranges ranges = equal_parts(rest, rank, 2);
         std::ranges::copy(replicated(shared), std::back_inserter(ranges));
         return ranges;
       }}};
}

/// The ranges that ranks request when they load.
struct Loading {
  const char* name;
  int size;
  std::function<std::vector<RangeRequest>(
      const std::map<std::string, TensorType>& saved, int rank)>
      requests;
};

std::vector<Loading> loadings() {
  return {
      {"Whole1", 1, nullptr},
      {"Whole3", 3, nullptr},
      {"Everything1",
       1,
       [](const auto& saved, int) { return request_parts(saved, 0, 1); }},
      {"EqualParts2",
       2,
       [](const auto& saved, int rank) {
         return request_parts(saved, rank, 2);
       }},
      {"EqualParts3",
       3,
       [](const auto& saved, int rank) {
         return request_parts(saved, rank, 3);
       }},
      {"NothingOnRank0",
       2,
       [](const auto& saved, int rank) {
         return rank == 0 ? std::vector<RangeRequest>()
                          : request_parts(saved, 0, 1);
       }},
      {"OverlappingAndUnsorted",
       3,
       [](const auto& saved, int rank) {
         auto requests = request_parts(saved, rank, 4);
         std::ranges::copy(
             request_parts(saved, 0, 2), std::back_inserter(requests));
         return requests;
       }},
      {"WholeOnRank0AndPartsOnRank1", 2, nullptr}};
}

/// Expects exactly the requested elements.
void expect_requested(
    const Ranges& loaded,
    const std::vector<RangeRequest>& requests,
    const TensorMap& state) {
  ASSERT_EQ(loaded.size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& [name, offset, length] = requests[i];
    EXPECT_EQ(loaded[i].name, name);
    EXPECT_EQ(loaded[i].offset, offset);
    EXPECT_EQ(loaded[i].shape, state.at(name).sizes().vec());
    EXPECT_EQ(loaded[i].values.scalar_type(), state.at(name).scalar_type());
    EXPECT_TRUE(at::equal(
        loaded[i].values,
        state.at(name).reshape({-1}).slice(0, offset, offset + length)))
        << name << " " << offset << " " << length;
  }
}

using Case = std::tuple<Division, Loading>;
class DividedRanges : public testing::TestWithParam<Case> {};

TEST_P(DividedRanges, AreLoadedHoweverTheyWereDivided) {
  const auto& [division, loading] = GetParam();
  const TemporaryDirectory folder;
  const TensorMap state = whole_state();
  run_on_ranks(division.size, quick(Backend::fake), [&](Group& group) {
    CheckpointWriter writer(group);
    const CheckpointContents contents =
        contents_of(group, division.ranges(state, group.rank()));
    writer.save(contents, {.parent = folder.path(), .name = "c"});
    writer.save_in_background(
        contents, {.parent = folder.path(), .name = "background"});
    writer.wait();
  });
  EXPECT_THAT(
      compare_checkpoints(folder.path() / "c", folder.path() / "background"),
      testing::IsEmpty());

  const bool is_mixed =
      std::string(loading.name) == "WholeOnRank0AndPartsOnRank1";
  run_on_ranks(loading.size, quick(Backend::fake), [&](Group& group) {
    std::vector<RangeRequest> requests;
    const ChooseRanges choose =
        [&](const std::string& key,
            const auto& saved) -> std::optional<std::vector<RangeRequest>> {
      EXPECT_EQ(key, "optimizer");
      if (is_mixed && group.rank() == 0) {
        return std::nullopt;
      }
      requests = is_mixed ? request_parts(saved, 1, 2)
                          : loading.requests(saved, group.rank());
      return requests;
    };
    const bool loads_whole =
        is_mixed ? group.rank() == 0 : loading.requests == nullptr;
    const LoadedCheckpoint loaded = load_checkpoint(
        folder.path() / "c",
        group,
        true,
        is_mixed || !loads_whole ? choose : nullptr);
    if (loads_whole) {
      EXPECT_TRUE(loaded.requested.empty());
      expect_same_tensors(loaded.ranges.at("optimizer"), state);
    } else {
      EXPECT_TRUE(loaded.ranges.empty());
      expect_requested(loaded.requested.at("optimizer"), requests, state);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    DividedRanges,
    testing::Combine(
        testing::ValuesIn(divisions()), testing::ValuesIn(loadings())),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" +
             std::get<1>(test.param).name;
    });

// The files must be the same as in version 1.0.
TEST(ReplicatedTensors, AreDividedAsInEarlierCheckpoints) {
  const TemporaryDirectory folder;
  const TensorMap state = {
      {"a.exp_avg", at::arange(3'000'001, at::kFloat).view({3'000'001, 1})},
      {"b.exp_avg", at::arange(1'000'003, at::kDouble)},
      {"c.half", at::arange(999, at::kHalf).view({9, 111}).t()},
      {"d.none", at::empty({0, 4})},
      {"e.number", at::scalar_tensor(7, at::kLong)},
      {"z.bytes", at::arange(5'000'000).to(at::kByte)}};
  run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
    CheckpointContents contents = contents_of(group, replicated(state));
    contents.ranges["optimizer_1"] =
        replicated({{"s", at::arange(10, at::kFloat)}});
    contents.ranges["optimizer_2"];
    CheckpointWriter(group).save(
        contents, {.parent = folder.path(), .name = "c"});
  });

  std::map<std::string, std::string> checksums;
  for (const auto& [name, sum] : read_manifest(folder.path() / "c").files) {
    if (name.starts_with("optimizer")) {
      checksums[name] = sum.xxh3;
    }
  }
  EXPECT_THAT(
      checksums,
      testing::ElementsAre(
          std::pair("optimizer-00001-of-00002.safetensors", "328a25bc1c89a995"),
          std::pair("optimizer-00002-of-00002.safetensors", "bbbfee0f7deaf97b"),
          std::pair("optimizer.shapes.json", "b302ee0100771fb7"),
          std::pair("optimizer_1.safetensors", "63a468e76d3c53f3"),
          std::pair("optimizer_1.shapes.json", "b685b2d87643131d"),
          std::pair("optimizer_2.safetensors", "6058d0edecb9e9d9"),
          std::pair("optimizer_2.shapes.json", "daa13e4f205dc5ba")));
}

TEST(ReplicatedTensors, MayShareMemory) {
  const TemporaryDirectory folder;
  const at::Tensor tied = at::arange(6, at::kFloat);
  const TensorMap state = {{"a", tied}, {"b", tied.view({2, 3})}};
  const Group group;
  CheckpointWriter writer(group);
  const CheckpointContents contents = contents_of(group, replicated(state));
  const Destination to{.parent = folder.path(), .name = "c"};

  writer.save(contents, to);
  expect_same_tensors(
      load_checkpoint(folder.path() / "c", group, true).ranges["optimizer"],
      state);
  writer.save_in_background(contents, to);
  writer.wait();
  expect_same_tensors(
      load_checkpoint(folder.path() / "c", group, true).ranges["optimizer"],
      state);
}

TEST(RequestedRanges, CanBePartsOfWeights) {
  const TemporaryDirectory folder;
  const TensorMap weights = {
      {"w", at::arange(12, at::kFloat).view({3, 4})},
      {"v", at::arange(5, at::kHalf)}};
  run_on_ranks(2, quick(Backend::fake), [&](Group& group) {
    CheckpointContents contents = contents_of(group, {});
    contents.weights["model"] = weights;
    CheckpointWriter(group).save(
        contents, {.parent = folder.path(), .name = "c"});
  });
  run_on_ranks(3, quick(Backend::fake), [&](Group& group) {
    std::vector<RangeRequest> requests;
    const LoadedCheckpoint loaded = load_checkpoint(
        folder.path() / "c",
        group,
        true,
        [&](const std::string& key,
            const auto& saved) -> std::optional<std::vector<RangeRequest>> {
          if (key != "model") {
            return std::nullopt;
          }
          requests = request_parts(saved, group.rank(), 3);
          return requests;
        });
    EXPECT_TRUE(loaded.weights.empty());
    EXPECT_TRUE(loaded.ranges.at("optimizer").empty());
    expect_requested(loaded.requested.at("model"), requests, weights);
  });
}

// Models and optimizers whose state was divided among ranks.
TEST(DividedState, IsLoadedByARunInOneProcess) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  run.step();
  const fs::path whole = run.accelerator.save_state(folder.path() / "whole");
  const LoadedCheckpoint loaded = load_checkpoint(whole, Group(), true);
  run_on_ranks(2, quick(Backend::fake), [&](Group& group) {
    CheckpointContents contents;
    contents.step = loaded.step;
    contents.process_index = group.rank();
    contents.num_processes = group.size();
    contents.documents = loaded.documents;
    contents.rank_state = loaded.rank_states.front();
    contents.ranges["model"] =
        equal_parts(loaded.weights.at("model"), group.rank(), 2);
    contents.ranges["optimizer"] =
        equal_parts(loaded.ranges.at("optimizer"), group.rank(), 2);
    CheckpointWriter(group).save(
        contents, {.parent = folder.path(), .name = "divided"});
  });

  SingleProcessRun other(folder.path() / "other");
  other.accelerator.load_state(folder.path() / "divided");
  EXPECT_TRUE(at::equal(other.net->weight, run.net->weight));
  run.step();
  other.step();
  EXPECT_TRUE(at::equal(other.net->weight, run.net->weight));
}

}  // namespace
}  // namespace accelerate
