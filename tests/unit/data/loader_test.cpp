// SPDX-License-Identifier: Apache-2.0
// A loader on one process: orders, batches, loops.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ops/rand.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>

#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "state/gradient_state.h"
#include "support/counting_datasets.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using Indices = std::vector<std::int64_t>;

TEST(DataLoader, ReturnsBatchesInOrder) {
  DataLoader loader(Counting{7}, {.batch_size = 3});

  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(
      read_all(loader), (std::vector<Indices>{{0, 1, 2}, {3, 4, 5}, {6}}));
}

TEST(DataLoader, DropsAShortLastBatchWhenAsked) {
  DataLoader loader(Counting{7}, {.batch_size = 3, .drop_last = true});

  EXPECT_EQ(loader.size(), 2);
  EXPECT_EQ(read_all(loader), (std::vector<Indices>{{0, 1, 2}, {3, 4, 5}}));
}

TEST(DataLoader, HandlesAnEmptyDataset) {
  DataLoader loader(Counting{0}, {.batch_size = 3, .num_workers = 2});

  EXPECT_EQ(loader.size(), 0);
  EXPECT_TRUE(read_all(loader).empty());
  EXPECT_EQ(loader.epoch(), 1);
}

TEST(DataLoader, ShufflesDifferentlyInEachEpoch) {
  DataLoader loader(
      Counting{50}, {.batch_size = 50, .shuffle = true, .seed = 1});

  const Indices first = read_all(loader).front();
  const Indices second = read_all(loader).front();
  loader.set_epoch(0);
  const Indices again = read_all(loader).front();

  EXPECT_NE(first, second);
  EXPECT_EQ(first, again);
  EXPECT_EQ(sorted(first), sorted(second));
}

TEST(DataLoader, ShufflesLikePythonWhenAsked) {
  DataLoader loader(
      Counting{10}, {.batch_size = 10, .shuffle = true, .seed = 7});
  ShardOptions options;
  options.configuration.use_seedable_sampler = true;
  loader.shard(options);
  loader.set_epoch(5);
  auto generator = detail::make_generator();
  generator.set_current_seed(12);

  const Indices order = read_all(loader).front();

  EXPECT_EQ(
      order,
      to_indices(at::randperm(10, generator, at::TensorOptions(at::kLong))));
}

TEST(DataLoader, UsesLibTorchsSeedByDefault) {
  const auto order_with = [](std::uint64_t seed) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(seed);
    DataLoader loader(Counting{50}, {.batch_size = 50, .shuffle = true});
    return read_all(loader).front();
  };

  EXPECT_EQ(order_with(3), order_with(3));
  EXPECT_NE(order_with(3), order_with(4));
}

TEST(DataLoader, UsesTheConfiguredSeedAfterAnotherWasUsed) {
  const auto order_with = [](std::uint64_t seed) {
    DataLoader loader(Counting{50}, {.batch_size = 50, .shuffle = true});
    static_cast<void>(loader.state_dict());
    ShardOptions options;
    options.configuration.data_seed = seed;
    loader.shard(options);
    return read_all(loader).front();
  };

  EXPECT_EQ(order_with(3), order_with(3));
  EXPECT_NE(order_with(3), order_with(4));
}

struct Backwards {
  std::int64_t n;
  std::int64_t size() const { return n; }
  std::int64_t operator()(std::int64_t position) const {
    return n - 1 - position;
  }
};

TEST(DataLoader, FollowsASampler) {
  DataLoader loader(Counting{5}, {.batch_size = 3, .sampler = Backwards{5}});
  DataLoader listed(
      Counting{5}, {.batch_size = 3, .sampler = Indices{4, 4, 0}});

  EXPECT_EQ(read_all(loader), (std::vector<Indices>{{4, 3, 2}, {1, 0}}));
  EXPECT_EQ(read_all(listed), (std::vector<Indices>{{4, 4, 0}}));
}

// Begins at a configurable index, which is saved in a checkpoint.
struct Shifted {
  std::int64_t n;
  std::int64_t first = 0;
  std::int64_t size() const { return n; }
  std::int64_t operator()(std::int64_t position) const {
    return (first + position) % n;
  }
  Json state_dict() const { return Json::object({{"first", first}}); }
  void load_state_dict(const Json& state) {
    first = state.at("first").as_integer();
  }
};

TEST(DataLoader, KeepsTheStateOfASampler) {
  DataLoader saved(Counting{4}, {.batch_size = 4, .sampler = Shifted{4, 3}});
  DataLoader fresh(Counting{4}, {.batch_size = 4, .sampler = Shifted{4}});
  DataLoader plain(Counting{4}, {.batch_size = 4, .sampler = Backwards{4}});

  fresh.load_state_dict(saved.state_dict());

  EXPECT_EQ(read_all(fresh), (std::vector<Indices>{{3, 0, 1, 2}}));
  EXPECT_EQ(
      message_of<FormatError>(
          [&] { plain.load_state_dict(saved.state_dict()); }),
      "the data loader's state contains a sampler state, but this loader's "
      "sampler cannot load one");
  EXPECT_EQ(
      message_of<FormatError>(
          [&] { fresh.load_state_dict(plain.state_dict()); }),
      "the data loader's state contains no sampler state, but this loader's "
      "sampler needs one");
}

TEST(DataLoader, FollowsABatchSampler) {
  DataLoader loader(
      Counting{5},
      {.batch_sampler = std::vector<Indices>{{4}, {0, 1, 2}, {3, 3}}});

  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(read_all(loader), (std::vector<Indices>{{4}, {0, 1, 2}, {3, 3}}));
}

TEST(DataLoader, ReportsAnIndexOutsideTheDataset) {
  DataLoader loader(Counting{5}, {.sampler = Indices{5}});

  EXPECT_EQ(
      message_of<ArgumentError>([&] { read_all(loader); }),
      "the sampler returned index 5 for a dataset of size 5");
}

TEST(DataLoader, KnowsTheLastBatchWhileItIsProcessed) {
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(Counting{5}, {.batch_size = 2, .num_workers = workers});
    std::vector<bool> ends;
    Indices rows;

    for (auto& batch : loader) {
      static_cast<void>(batch);
      ends.push_back(loader.end_of_dataloader());
      rows.push_back(loader.valid_rows());
    }

    EXPECT_EQ(ends, (std::vector<bool>{false, false, true}));
    EXPECT_EQ(rows, (Indices{2, 2, 1}));
    EXPECT_EQ(loader.valid_rows(), 1);
  }
}

TEST(DataLoader, ReadsAStream) {
  DataLoader loader(CountingStream{5}, {.batch_size = 2});
  std::vector<bool> ends;
  std::vector<Indices> batches;

  for (auto& batch : loader) {
    ends.push_back(loader.end_of_dataloader());
    batches.push_back(to_indices(batch));
  }

  EXPECT_EQ(batches, (std::vector<Indices>{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(ends, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(read_all(loader), batches);
}

TEST(DataLoader, ReportsThatAStreamHasNoSize) {
  const DataLoader loader(CountingStream{5});

  EXPECT_EQ(
      message_of<StateError>([&] { static_cast<void>(loader.size()); }),
      "a stream has no size: its length is unknown until it ends");
}

TEST(DataLoader, UsesACustomCollateFunction) {
  DataLoader with_option(
      Counting{4}, {.batch_size = 2, .collate = [](Indices samples) {
                      return at::tensor(samples[0] * 10 + samples[1]).view(1);
                    }});
  DataLoader of_another_type(
      Counting{4}, {.batch_size = 2}, [](const Indices& samples) {
        return std::to_string(samples.front()) + "…";
      });

  EXPECT_EQ(read_all(with_option), (std::vector<Indices>{{1}, {23}}));
  std::vector<std::string> texts;
  for (const std::string& batch : of_another_type) {
    texts.push_back(batch);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"0…", "2…"}));
}

TEST(DataLoader, SharesADatasetGivenAsAPointer) {
  const auto dataset = std::make_shared<Counting>(Counting{3});
  DataLoader loader(dataset, {.batch_size = 3});
  dataset->n = 2;

  EXPECT_EQ(read_all(loader), (std::vector<Indices>{{0, 1}}));
}

struct Augmented {
  std::int64_t size() const { return 20; }
  float get(std::int64_t, at::Generator& generator) const {
    return at::rand({}, generator).item<float>();
  }
};

std::vector<float> augmented_epoch(std::int64_t workers, std::int64_t epoch) {
  DataLoader loader(
      Augmented(), {.batch_size = 4, .num_workers = workers, .seed = 5});
  loader.set_epoch(epoch);
  std::vector<float> values;
  for (at::Tensor& batch : loader) {
    for (std::int64_t i = 0; i < batch.size(0); ++i) {
      values.push_back(batch[i].item<float>());
    }
  }
  return values;
}

TEST(DataLoader, AugmentsOnlyBySeedEpochAndIndex) {
  const auto values = augmented_epoch(0, 1);

  EXPECT_EQ(values, augmented_epoch(3, 1));
  EXPECT_NE(values, augmented_epoch(0, 2));
  EXPECT_NE(values[0], values[1]);
}

TEST(DataLoader, UpdatesTheGradientState) {
  const auto state = std::make_shared<GradientState>();
  DataLoader outer(Counting{2});
  DataLoader inner(Counting{3}, {.batch_size = 3});
  ShardOptions options;
  options.gradient_state = state;
  outer.shard(options);
  inner.shard(options);

  std::vector<bool> ends;
  for (auto& batch : outer) {
    static_cast<void>(batch);
    ends.push_back(state->end_of_dataloader());
    for (auto& inside : inner) {
      static_cast<void>(inside);
      EXPECT_TRUE(state->end_of_dataloader());
      EXPECT_EQ(state->active()->valid_rows(), 3);
    }
    EXPECT_EQ(state->active()->valid_rows(), 1);
  }

  EXPECT_EQ(ends, (std::vector<bool>{false, true}));
  EXPECT_FALSE(state->in_dataloader());
}

TEST(DataLoader, ResetsTheGradientStateWhenALoopEndsEarly) {
  const auto state = std::make_shared<GradientState>();
  {
    DataLoader loader(Counting{9}, {.num_workers = 1});
    ShardOptions options;
    options.gradient_state = state;
    loader.shard(options);
    for (auto& batch : loader) {
      static_cast<void>(batch);
      break;
    }
    EXPECT_FALSE(state->in_dataloader());
    EXPECT_NE(state->active(), nullptr);
  }
  EXPECT_EQ(state->active(), nullptr);
}

TEST(DataLoader, SupportsNestedLoops) {
  DataLoader loader(Counting{3});
  std::vector<bool> ends;

  for (auto& outer : loader) {
    static_cast<void>(outer);
    for (auto& inner : loader) {
      static_cast<void>(inner);
    }
    ends.push_back(loader.end_of_dataloader());
  }

  EXPECT_EQ(ends, (std::vector<bool>{false, false, true}));
}

struct BadOptions {
  DataLoaderOptions<Counting> options;
  std::string message;
};

class WrongOptions : public testing::TestWithParam<BadOptions> {};

TEST_P(WrongOptions, AreRefusedWithTheirNames) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { DataLoader(Counting{3}, GetParam().options); }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    WrongOptions,
    testing::Values(
        BadOptions{{.batch_size = 0}, "`batch_size` is 0"},
        BadOptions{{.num_workers = -1}, "`num_workers` is -1"},
        BadOptions{{.prefetch_factor = 0}, "`prefetch_factor` is 0"},
        BadOptions{
            {.prefetch_factor = 3},
            "`prefetch_factor` is 3, but no worker prefetches: `num_workers` "
            "is "
            "0"},
        BadOptions{
            {.timeout = std::chrono::milliseconds(0)}, "`timeout` is 0 s"},
        BadOptions{
            {.warn_after = std::chrono::milliseconds(-5)},
            "`warn_after` is -5 ms"},
        BadOptions{
            {.shuffle = true, .sampler = Indices{}},
            "`shuffle` and `sampler` are both set"},
        BadOptions{
            {.batch_size = 2, .batch_sampler = std::vector<Indices>{}},
            "`batch_sampler` and `batch_size` are both set"},
        BadOptions{
            {.shuffle = true, .batch_sampler = std::vector<Indices>{}},
            "`batch_sampler` and `shuffle` are both set"},
        BadOptions{
            {.sampler = Indices{}, .batch_sampler = std::vector<Indices>{}},
            "`batch_sampler` and `sampler` are both set"},
        BadOptions{
            {.seed = 1, .generator = at::detail::getDefaultCPUGenerator()},
            "`seed` and `generator` are both set"}));

TEST(DataLoader, PinsNothingWithoutAGpu) {
  DataLoader plain(Counting{3});
  for (at::Tensor& batch : plain) {
    EXPECT_TRUE(batch.is_cpu());
  }
  DataLoader pinned(Counting{3}, {.pin_memory = true});

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { read_all(pinned); }),
      "`pin_memory` is on, but there is no GPU to pin memory for");
}

TEST(DataLoader, RefusesToShuffleAStream) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { DataLoader(CountingStream{3}, {.shuffle = true}); }),
      "the order of a stream cannot be changed");
}

TEST(DataLoader, RefusesChangesInsideALoop) {
  DataLoader loader(Counting{3});
  for (auto& batch : loader) {
    static_cast<void>(batch);
    EXPECT_EQ(
        message_of<StateError>([&] { loader.set_epoch(1); }),
        "set_epoch was called inside a loop over the loader");
    EXPECT_EQ(
        message_of<StateError>([&] { loader.shard({}); }),
        "shard was called inside a loop over the loader");
    EXPECT_EQ(
        message_of<StateError>(
            [&] { loader.load_state_dict(loader.state_dict()); }),
        "load_state_dict was called inside a loop over the loader");
  }
}

}  // namespace
}  // namespace accelerate
