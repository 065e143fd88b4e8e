// SPDX-License-Identifier: Apache-2.0
#include "accelerate/collate.h"

#include <string>

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/data/example.h>

#include "accelerate/error.h"
#include "accelerate/tensor_map.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

at::Tensor row(double value) {
  return at::full({2}, value);
}

struct Sentence {
  std::string language;
  at::Tensor ids;
  std::vector<at::Tensor> masks;
};

template <typename F>
void for_each_tensor(Sentence& sentence, F f) {
  f(sentence.ids);
  f(sentence.masks);
}

TEST(DefaultCollate, StacksTensors) {
  const at::Tensor batch = default_collate(std::vector{row(1), row(2)});

  EXPECT_TRUE(at::equal(batch, at::tensor({1.F, 1.F, 2.F, 2.F}).view({2, 2})));
}

// Plain tensors are copied row by row; others use at::stack.
TEST(DefaultCollate, StacksLikeAtStack) {
  const at::Tensor matrix = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor leaf = at::ones({2}).requires_grad_();
  const std::vector<std::vector<at::Tensor>> cases = {
      {matrix, matrix.add(1)},
      {matrix.t(), matrix.t().add(1)},
      {matrix[1], matrix[2]},
      {matrix, matrix.to(at::kDouble)},
      {matrix.to(at::kBFloat16), matrix.to(at::kBFloat16)},
      {at::zeros({0, 3}), at::zeros({0, 3})},
      {at::ones({}), at::zeros({})},
      {leaf, leaf.mul(2)}};

  for (const auto& samples : cases) {
    const at::Tensor batch = default_collate(samples);
    const at::Tensor wanted = at::stack(samples);
    EXPECT_TRUE(at::equal(batch, wanted));
    EXPECT_EQ(batch.scalar_type(), wanted.scalar_type());
    EXPECT_EQ(batch.requires_grad(), wanted.requires_grad());
  }
}

TEST(DefaultCollate, TurnsNumbersIntoTensors) {
  EXPECT_TRUE(at::equal(
      default_collate(std::vector<int>{3, 4}),
      at::tensor({3, 4}).to(at::kLong)));
  EXPECT_TRUE(
      at::equal(default_collate(std::vector<float>{0.5F}), at::tensor({0.5F})));
  EXPECT_TRUE(at::equal(
      default_collate(std::vector<bool>{true, false}),
      at::tensor({1, 0}).to(at::kBool)));
  EXPECT_EQ(
      default_collate(std::vector<double>{0.5}).scalar_type(), at::kDouble);
}

TEST(DefaultCollate, TurnsListsOfNumbersIntoRows) {
  const at::Tensor batch =
      default_collate(std::vector<std::vector<int>>{{1, 2, 3}, {4, 5, 6}});

  EXPECT_EQ(batch.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(batch[1][0].item<std::int64_t>(), 4);
}

TEST(DefaultCollate, KeepsContainerTypes) {
  using Sample = std::tuple<
      at::Tensor,
      std::pair<int, at::Tensor>,
      std::optional<at::Tensor>,
      std::vector<at::Tensor>>;
  const auto sample = [](double v) {
    return Sample{row(v), {1, row(v)}, row(v), {row(v), row(v)}};
  };

  const std::tuple<
      at::Tensor,
      std::pair<at::Tensor, at::Tensor>,
      std::optional<at::Tensor>,
      std::vector<at::Tensor>>
      batch = default_collate(std::vector{sample(1), sample(2), sample(3)});

  EXPECT_EQ(std::get<1>(batch).first.size(0), 3);
  EXPECT_EQ(std::get<2>(batch)->size(0), 3);
  EXPECT_EQ(std::get<3>(batch).size(), 2);
  EXPECT_EQ(std::get<3>(batch)[1][2][0].item<float>(), 3);
}

TEST(DefaultCollate, JoinsMapsKeyByKey) {
  const TensorMap batch = default_collate(std::vector<TensorMap>{
      {{"a", row(1)}, {"b", row(2)}}, {{"a", row(3)}, {"b", row(4)}}});

  EXPECT_EQ(batch.at("b")[1][0].item<float>(), 4);
}

TEST(DefaultCollate, AcceptsExamplesWithAndWithoutTarget) {
  const torch::data::Example<> batch =
      default_collate(std::vector<torch::data::Example<>>{{row(1), row(2)}});
  const torch::data::TensorExample alone =
      default_collate(std::vector<torch::data::TensorExample>{row(1), row(2)});

  EXPECT_EQ(batch.target[0][0].item<float>(), 2);
  EXPECT_EQ(alone.data.size(0), 2);
}

TEST(DefaultCollate, AcceptsStructsWithAHook) {
  const Sentence batch = default_collate(std::vector<Sentence>{
      {"en", row(1), {row(2)}}, {"en", row(3), {row(4)}}});

  EXPECT_EQ(batch.language, "en");
  EXPECT_EQ(batch.ids[1][0].item<float>(), 3);
  EXPECT_EQ(batch.masks[0][1][0].item<float>(), 4);
}

TEST(DefaultCollate, ReportsSamplesThatDoNotFit) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(
            default_collate(std::vector{row(1), at::full({3}, 1.0)}));
      }),
      "samples in one batch have shapes [2] and [3]");
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(
            default_collate(std::vector<TensorMap>{{{"a", row(1)}}, {}}));
      }),
      "samples in one batch have 1 and 0 keys");
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(default_collate(
            std::vector<std::optional<at::Tensor>>{row(1), std::nullopt}));
      }),
      "samples in one batch have 1 and 0 optional values");
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(default_collate(
            std::vector<std::vector<at::Tensor>>{{row(1)}, {}}));
      }),
      "samples in one batch have 1 and 0 elements");
}

TEST(DefaultCollate, ReportsAMissingKey) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(default_collate(
            std::vector<TensorMap>{{{"a", row(1)}}, {{"b", row(1)}}}));
      }),
      "a sample does not have the key `a` that the first sample in the batch "
      "has");
}

}  // namespace
}  // namespace accelerate
