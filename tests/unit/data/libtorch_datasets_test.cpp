// SPDX-License-Identifier: Apache-2.0
// LibTorch's datasets in this library's loader.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ops/tensor.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/transforms/stack.h>

#include "accelerate/data_loader.h"
#include "support/counting_datasets.h"

namespace accelerate {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

class TorchCounting : public torch::data::datasets::
                          Dataset<TorchCounting, torch::data::Example<>> {
 public:
  torch::data::Example<> get(std::size_t index) override {
    ++calls_;  // Not const, so not shared between workers.
    const auto value = static_cast<std::int64_t>(index);
    return {at::tensor({value}), at::tensor(value * value)};
  }
  std::optional<std::size_t> size() const override { return 10; }

 private:
  int calls_ = 0;
};

TEST(LibTorchDatasets, AreReadWithAndWithoutWorkers) {
  for (const std::int64_t workers : {0, 3}) {
    DataLoader loader(
        TorchCounting(), {.batch_size = 4, .num_workers = workers});
    Lists squares;

    for (torch::data::Example<>& batch : loader) {
      squares.push_back(to_indices(batch.target));
    }

    EXPECT_EQ(squares, (Lists{{0, 1, 4, 9}, {16, 25, 36, 49}, {64, 81}}));
  }
}

TEST(LibTorchDatasets, MayStackThemselves) {
  DataLoader loader(
      TorchCounting().map(torch::data::transforms::Stack<>()),
      {.batch_size = 5, .num_workers = 2});
  Lists squares;

  for (torch::data::Example<>& batch : loader) {
    squares.push_back(to_indices(batch.target));
  }

  EXPECT_EQ(squares, (Lists{{0, 1, 4, 9, 16}, {25, 36, 49, 64, 81}}));
}

class TorchStream : public torch::data::datasets::StreamDataset<
                        TorchStream,
                        std::optional<std::vector<torch::data::Example<>>>> {
 public:
  std::optional<std::vector<torch::data::Example<>>> get_batch(
      std::size_t count) override {
    std::vector<torch::data::Example<>> batch;
    for (; batch.size() < count && next_ < 5; ++next_) {
      batch.emplace_back(at::tensor({next_}), at::tensor(next_ * next_));
    }
    return batch.empty() ? std::nullopt : std::optional(batch);
  }
  std::optional<std::size_t> size() const override { return std::nullopt; }
  void reset() { next_ = 0; }

 private:
  std::int64_t next_ = 0;
};

TEST(LibTorchDatasets, MayBeStreams) {
  DataLoader loader(TorchStream(), {.batch_size = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    Lists squares;

    for (torch::data::Example<>& batch : loader) {
      squares.push_back(to_indices(batch.target));
    }

    EXPECT_EQ(squares, (Lists{{0, 1}, {4, 9}, {16}}));
  }
}

}  // namespace
}  // namespace accelerate
