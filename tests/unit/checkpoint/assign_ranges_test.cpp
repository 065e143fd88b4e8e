// SPDX-License-Identifier: Apache-2.0
// Which rank writes which range, and which ranges are refused.
#include "checkpoint/assign_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Ranges = std::vector<TensorRange>;

/// Elements [offset, offset + length) of a tensor of 10 elements.
TensorRange range(
    const std::string& name,
    const std::int64_t offset,
    const std::int64_t length,
    std::vector<std::int64_t> shape = {2, 5}) {
  return {
      .name = name,
      .shape = std::move(shape),
      .offset = offset,
      .values = at::arange(offset, offset + length, at::kFloat)};
}

/// The parts of ranks that have these ranges in `optimizer`.
std::vector<Part> assign(const std::vector<Ranges>& of_ranks) {
  std::vector<Part> parts;
  std::vector<Json> tables;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    CheckpointContents contents;
    contents.process_index = static_cast<int>(rank);
    contents.num_processes = static_cast<int>(of_ranks.size());
    contents.ranges["optimizer"] = of_ranks[rank];
    parts.push_back(
        part_of(contents, contents.process_index, contents.num_processes));
    tables.push_back(range_table(parts.back()));
  }
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    parts[rank] =
        assign_ranges(std::move(parts[rank]), tables, static_cast<int>(rank));
  }
  return parts;
}

std::string refusal_of(const std::vector<Ranges>& of_ranks) {
  return message_of<StateError>([&] { assign(of_ranks); });
}

/// The files of a part except the `rank-` file, with the names of their
/// tensors.
std::map<std::string, std::vector<std::string>> files_of(const Part& part) {
  std::map<std::string, std::vector<std::string>> files;
  for (const TensorFile& file : part.tensors) {
    if (!file.name.starts_with("rank-")) {
      auto& names = files[file.name];
      for (const auto& [name, tensor] : file.tensors) {
        names.push_back(name);
      }
    }
  }
  return files;
}

TEST(AssignRanges, LetsEachRankWriteItsOwn) {
  const auto parts =
      assign({{range("a", 0, 3)}, {range("a", 3, 7), range("b", 0, 10)}, {}});

  EXPECT_THAT(
      files_of(parts[0]),
      ElementsAre(
          Pair("optimizer-00001-of-00002.safetensors", ElementsAre("a@0"))));
  EXPECT_THAT(
      files_of(parts[1]),
      ElementsAre(Pair(
          "optimizer-00002-of-00002.safetensors", ElementsAre("a@3", "b@0"))));
  EXPECT_THAT(files_of(parts[2]), IsEmpty());
}

TEST(AssignRanges, WritesTheShapesOfTensorsThatRankZeroDoesNotHave) {
  const auto parts = assign({{}, {range("a", 0, 10)}});

  ASSERT_EQ(parts[0].documents.size(), 1U);
  EXPECT_EQ(parts[0].documents[0].first, "optimizer.shapes.json");
  EXPECT_EQ(
      parts[0].documents[0].second.dump(),
      R"({"a":{"dtype":"F32","shape":[2,5]}})");
  EXPECT_THAT(files_of(parts[0]), IsEmpty());
  EXPECT_THAT(
      files_of(parts[1]),
      ElementsAre(Pair("optimizer.safetensors", ElementsAre("a@0"))));
}

TEST(AssignRanges, BalancesRangesThatSeveralRanksHave) {
  const Ranges first = {range("a", 0, 5), range("b", 0, 5)};
  const Ranges second = {range("a", 5, 5), range("b", 5, 5)};
  const auto parts = assign({first, second, first, second});

  const std::vector<std::string> expected = {"a@0", "a@5", "b@0", "b@5"};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(
        files_of(parts[rank]),
        ElementsAre(Pair(
            tensor_file_name("optimizer", static_cast<int>(rank), 4),
            ElementsAre(expected[rank]))));
  }
}

TEST(AssignRanges, CombinesReplicatedTensorsWithRangesOfOneRank) {
  Ranges first = replicated({{"a", at::ones({4})}});
  Ranges second = first;
  second.push_back(range("b", 0, 10));
  const auto parts = assign({first, second});

  EXPECT_THAT(
      files_of(parts[0]),
      ElementsAre(
          Pair("optimizer-00001-of-00002.safetensors", ElementsAre("a@0"))));
  EXPECT_THAT(
      files_of(parts[1]),
      ElementsAre(
          Pair("optimizer-00002-of-00002.safetensors", ElementsAre("b@0"))));
}

TEST(AssignRanges, LetsRankZeroWriteAnEmptyFileIfThereAreNoElements) {
  const auto parts = assign({{}, {range("a", 0, 0, {0, 4})}});

  EXPECT_THAT(
      files_of(parts[0]),
      ElementsAre(Pair("optimizer.safetensors", IsEmpty())));
  EXPECT_EQ(
      parts[0].documents[0].second.dump(),
      R"({"a":{"dtype":"F32","shape":[0,4]}})");
  EXPECT_THAT(files_of(parts[1]), IsEmpty());
}

TEST(AssignRanges, IgnoresRangesOfLengthZero) {
  const auto parts = assign({{range("a", 0, 10)}, {range("a", 4, 0)}});

  EXPECT_THAT(
      files_of(parts[0]),
      ElementsAre(Pair("optimizer.safetensors", ElementsAre("a@0"))));
  EXPECT_THAT(files_of(parts[1]), IsEmpty());
}

TEST(AssignRanges, SavesReplicatedTensorsOfTheMainRankIfAsked) {
  std::vector<Ranges> of_ranks;
  for (const std::int64_t size : {4, 3}) {
    CheckpointContents contents;
    contents.ranges["optimizer"] = replicated({{"a", at::ones({size})}});
    contents.write_from_main_rank();
    of_ranks.push_back(contents.ranges["optimizer"]);
  }
  of_ranks[1].push_back(range("b", 0, 10));
  const auto parts = assign(of_ranks);

  EXPECT_THAT(
      files_of(parts[0]),
      ElementsAre(
          Pair("optimizer-00001-of-00002.safetensors", ElementsAre("a@0"))));
  EXPECT_EQ(parts[0].tensors.back().tensors.at("a@0").numel(), 4);
  EXPECT_THAT(
      files_of(parts[1]),
      ElementsAre(
          Pair("optimizer-00002-of-00002.safetensors", ElementsAre("b@0"))));
}

TEST(AssignRanges, RefusesAGap) {
  EXPECT_EQ(
      refusal_of({{range("a", 0, 4)}, {range("a", 6, 4)}}),
      "no rank has elements [4, 6) of tensor `a` in `optimizer`: rank 0 has "
      "elements [0, 4), rank 1 has elements [6, 10)");
  EXPECT_EQ(
      refusal_of({{}, {range("a", 6, 4)}}),
      "no rank has elements [0, 6) of tensor `a` in `optimizer`: rank 1 has "
      "elements [6, 10)");
  EXPECT_EQ(
      refusal_of({{range("a", 0, 9)}, {}}),
      "no rank has elements [9, 10) of tensor `a` in `optimizer`: rank 0 has "
      "elements [0, 9)");
  EXPECT_EQ(
      refusal_of({{range("a", 0, 0)}, {range("a", 10, 0)}}),
      "no rank has elements [0, 10) of tensor `a` in `optimizer`");
}

TEST(AssignRanges, RefusesAnOverlapOfDifferentRanges) {
  EXPECT_EQ(
      refusal_of({{range("a", 0, 6)}, {range("a", 5, 5)}}),
      "rank 0 has elements [0, 6) of tensor `a` in `optimizer`, and rank 1 has "
      "elements [5, 10): ranges must not overlap, unless different ranks list "
      "the same range");
  EXPECT_THAT(
      refusal_of({{range("a", 0, 10)}, {range("a", 0, 5)}}),
      testing::StartsWith(
          "rank 1 has elements [0, 5) of tensor `a` in `optimizer`, and rank 0 "
          "has elements [0, 10)"));
  EXPECT_THAT(
      refusal_of({{range("a", 0, 10), range("a", 0, 10)}, {}}),
      testing::StartsWith(
          "rank 0 has elements [0, 10) of tensor `a` in `optimizer`, and rank "
          "0 has elements [0, 10)"));
}

TEST(AssignRanges, RefusesAReplicatedTensorThatARankAlsoHasAsItsOwn) {
  Ranges all = replicated({{"a", at::ones({2, 5})}});
  Ranges more = all;
  more.push_back(range("a", 0, 10));

  EXPECT_THAT(
      refusal_of({all, more}),
      testing::StartsWith(
          "every rank has elements [0, 10) of tensor `a` in `optimizer`, and "
          "rank 1 has elements [0, 10)"));
}

TEST(AssignRanges, RefusesDifferentShapesAndTypes) {
  EXPECT_EQ(
      refusal_of({{range("a", 0, 5)}, {range("a", 5, 5, {5, 2})}}),
      "tensor `a` in `optimizer` is Float[2, 5] on rank 0, but Float[5, 2] on "
      "rank 1");
  TensorRange half = range("a", 5, 5);
  half.values = half.values.to(at::kHalf);
  EXPECT_EQ(
      refusal_of({{range("a", 0, 5)}, {half}}),
      "tensor `a` in `optimizer` is Float[2, 5] on rank 0, but Half[2, 5] on "
      "rank 1");
}

TEST(AssignRanges, RefusesElementsThatTheTensorDoesNotHave) {
  EXPECT_EQ(
      refusal_of({{range("a", 0, 8)}, {range("a", 8, 3)}}),
      "rank 1 has elements [8, 11) of tensor `a` in `optimizer`, but the "
      "tensor is Float[2, 5], which has only elements [0, 10)");
  EXPECT_EQ(
      refusal_of({{range("a", -1, 8)}}),
      "rank 0 has elements [-1, 7) of tensor `a` in `optimizer`, but the "
      "tensor is Float[2, 5], which has only elements [0, 10)");
}

TEST(PartOf, RefusesAKeyThatIsInWeightsAndInRanges) {
  CheckpointContents contents;
  contents.weights["model"];
  contents.ranges["model"];

  EXPECT_EQ(
      message_of<InternalError>([&] { part_of(contents, 0, 1); }),
      "`model` is both a weight and a range in the checkpoint");
}

}  // namespace
}  // namespace accelerate
