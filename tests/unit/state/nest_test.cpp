// SPDX-License-Identifier: Apache-2.0
#include "accelerate/nest.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/data/example.h>

#include "accelerate/error.h"
#include "accelerate/operations.h"
#include "support/message_of.h"

// A type in a user's namespace, where argument-dependent lookup finds the hook.
namespace user {

struct Batch {
  at::Tensor ids;
  std::vector<at::Tensor> images;
  int number = 7;
};

template <typename F>
void for_each_tensor(Batch& batch, F f) {
  f(batch.ids);
  f(batch.images);
}

}  // namespace user

namespace accelerate {
namespace {

at::Tensor number(double value) {
  return at::full({2}, value);
}

// Returns the first element of each tensor.
template <typename Nest>
std::vector<double> firsts(const Nest& nest) {
  std::vector<double> values;
  for (const at::Tensor& tensor : tensors_of(nest)) {
    values.push_back(tensor[0].template item<double>());
  }
  return values;
}

// Replaces each tensor, and checks that the original did not change.
template <typename Nest>
void expect_nest(const Nest& nest, const std::vector<double>& expected) {
  std::vector<at::Tensor> others;
  std::vector<double> negative;
  for (const double value : expected) {
    others.push_back(number(-value));
    negative.push_back(-value);
  }

  const Nest changed = with_tensors(nest, others);

  EXPECT_EQ(firsts(nest), expected);
  EXPECT_EQ(firsts(changed), negative);
}

TEST(Nest, SupportsStandardContainers) {
  expect_nest(number(1), {1});
  expect_nest(std::vector<at::Tensor>{number(1), number(2)}, {1, 2});
  expect_nest(std::array<at::Tensor, 2>{number(1), number(2)}, {1, 2});
  expect_nest(std::pair(number(1), number(2)), {1, 2});
  expect_nest(std::tuple(number(1), number(2), number(3)), {1, 2, 3});
  expect_nest(
      std::map<std::string, at::Tensor>{{"b", number(2)}, {"a", number(1)}},
      {1, 2});
  expect_nest(std::unordered_map<int, at::Tensor>{{5, number(1)}}, {1});
  expect_nest(std::optional<at::Tensor>(number(1)), {1});
  expect_nest(std::optional<at::Tensor>(), {});
  expect_nest(std::vector<at::Tensor>(), {});
}

TEST(Nest, SupportsNestedContainers) {
  const std::map<std::string, std::vector<std::optional<at::Tensor>>> inner = {
      {"a", {number(1), std::nullopt, number(2)}}, {"b", {}}};

  expect_nest(std::tuple(inner, number(3)), {1, 2, 3});
}

TEST(Nest, SupportsLibTorchExamples) {
  expect_nest(torch::data::Example<>(number(1), number(2)), {1, 2});
  expect_nest(
      std::vector<torch::data::Example<>>{{number(1), number(2)}}, {1, 2});
  expect_nest(
      torch::data::Example<at::Tensor, torch::data::example::NoTarget>(
          number(1)),
      {1});
}

TEST(Nest, SupportsUserStructs) {
  const user::Batch batch{number(1), {number(2), number(3)}, 9};

  expect_nest(batch, {1, 2, 3});
  EXPECT_EQ(with_tensors(batch, {number(4), number(5), number(6)}).number, 9);
}

using Map = std::map<std::string, at::Tensor>;

TEST(SendToDevice, MovesEveryTensorAndKeepsTypes) {
  const auto moved = send_to_device(
      std::pair(at::ones({2}, at::kHalf), at::Tensor()), c10::Device("meta"));

  EXPECT_TRUE(moved.first.is_meta());
  EXPECT_EQ(moved.first.scalar_type(), at::kHalf);
  EXPECT_FALSE(moved.second.defined());
}

TEST(SendToDevice, DoesNotMoveSkippedKeys) {
  const Map batch = {{"ids", number(1)}, {"text", number(2)}};

  const Map moved = send_to_device(
      batch, c10::Device("meta"), {.skip_keys = {"text", "unknown"}});

  EXPECT_TRUE(moved.at("ids").is_meta());
  EXPECT_TRUE(moved.at("text").is_cpu());
}

TEST(SendToDevice, DoesNotMoveSkippedKeysOfInnerMaps) {
  const std::vector<std::map<std::string, Map>> nest = {
      {{"inner", {{"ids", number(1)}, {"text", number(2)}}}}};

  const auto moved =
      send_to_device(nest, c10::Device("meta"), {.skip_keys = {"text"}});

  EXPECT_TRUE(moved[0].at("inner").at("ids").is_meta());
  EXPECT_TRUE(moved[0].at("inner").at("text").is_cpu());
}

TEST(FindBatchSize, TakesTheFirstTensorWithRows) {
  EXPECT_EQ(find_batch_size(std::vector{at::ones({}), at::ones({3, 2})}), 3);
  EXPECT_EQ(find_batch_size(std::vector{at::ones({})}), std::nullopt);
  EXPECT_EQ(find_batch_size(std::vector<at::Tensor>{}), std::nullopt);
}

TEST(FindDevice, TakesTheFirstTensor) {
  EXPECT_EQ(find_device(std::vector{number(1)}), c10::Device("cpu"));
  EXPECT_EQ(find_device(std::vector<at::Tensor>{}), std::nullopt);
}

TEST(SliceTensors, TakesRowsOfEachTensor) {
  const auto part = slice_tensors(
      std::pair(at::arange(5), at::arange(10).view({5, 2})), 1, 3);

  EXPECT_TRUE(at::equal(part.first, at::arange(1, 3)));
  EXPECT_EQ(part.second.sizes(), (std::vector<std::int64_t>{2, 2}));
}

struct Rows {
  std::int64_t begin;
  std::int64_t end;
};

class BadSlice : public testing::TestWithParam<Rows> {};

TEST_P(BadSlice, ErrorNamesTheRows) {
  const auto [begin, end] = GetParam();

  EXPECT_EQ(
      message_of<ArgumentError>([&, first = begin, last = end] {
        static_cast<void>(slice_tensors(at::arange(5), first, last));
      }),
      "slice_tensors: rows " + std::to_string(begin) + " to " +
          std::to_string(end) + " are out of range for a tensor with 5 rows");
}

INSTANTIATE_TEST_SUITE_P(
    Operations,
    BadSlice,
    testing::Values(Rows{-1, 2}, Rows{3, 2}, Rows{0, 6}, Rows{6, 6}));

TEST(Concatenate, JoinsTensorByTensor) {
  const std::vector<Map> maps = {
      {{"a", at::ones({2})}, {"b", at::ones({1, 3})}},
      {{"a", at::ones({4})}, {"b", at::ones({2, 3})}}};

  const Map joined = concatenate(maps);

  EXPECT_EQ(joined.at("a").sizes(), (std::vector<std::int64_t>{6}));
  EXPECT_EQ(joined.at("b").sizes(), (std::vector<std::int64_t>{3, 3}));
}

using List = std::vector<at::Tensor>;

TEST(Concatenate, RejectsAnEmptyList) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { static_cast<void>(concatenate(std::vector<List>{})); }),
      "concatenate got no tensors");
}

TEST(Concatenate, RejectsDifferentNumbersOfTensors) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(concatenate(
            std::vector<List>{{number(1)}, {number(1), number(2)}}));
      }),
      "concatenate: the nests have 1 and 2 tensors");
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(concatenate(std::vector<List>{{}, {number(2)}}));
      }),
      "concatenate: the nests have 0 and 1 tensors");
}

TEST(Concatenate, RejectsShapesThatDoNotMatch) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(concatenate(
            std::vector<List>{{at::ones({2, 3})}, {at::ones({2, 4})}}));
      }),
      "concatenate: tensor 0 has shape [2, 3] in `nests[0]`, but [2, 4] in "
      "`nests[1]`; these shapes cannot be concatenated along dimension 0");
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(
            concatenate(std::vector<List>{{at::ones({2})}}, /*dim=*/1));
      }),
      "concatenate: dim is 1, but tensor 0 has 1 dimension");
}

TEST(ConvertToFp32, ConvertsOnly16BitFloats) {
  const auto converted = convert_to_fp32(std::vector<at::Tensor>{
      at::ones({1}, at::kHalf),
      at::ones({1}, at::kBFloat16),
      at::ones({1}, at::kDouble),
      at::ones({1}, at::kInt),
      at::Tensor()});

  EXPECT_EQ(converted[0].scalar_type(), at::kFloat);
  EXPECT_EQ(converted[1].scalar_type(), at::kFloat);
  EXPECT_EQ(converted[2].scalar_type(), at::kDouble);
  EXPECT_EQ(converted[3].scalar_type(), at::kInt);
  EXPECT_FALSE(converted[4].defined());
}

}  // namespace
}  // namespace accelerate
