// SPDX-License-Identifier: Apache-2.0
// Tests dispatch: rank 0 reads the data and sends each rank its batch.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <torch/data/example.h>

#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/tensor_map.h"
#include "data/dispatch.h"
#include "data/map_steps.h"
#include "support/counting_datasets.h"
#include "support/message_of.h"
#include "support/reference_shards.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

ShardOptions dispatch_on(Group& group, const ShardRules& rules = {}) {
  ShardOptions options;
  options.process_index = group.rank();
  options.num_processes = group.size();
  options.group = group;
  options.configuration.split_batches = rules.split_batches;
  options.configuration.even_batches = rules.even_batches;
  options.configuration.dispatch_batches = true;
  return options;
}

template <typename Loader>
std::vector<ReferenceBatch> read_and_check_end(
    Loader& loader, const std::vector<ReferenceBatch>& expected) {
  std::vector<ReferenceBatch> batches;
  for (at::Tensor& batch : loader) {
    batches.push_back({to_indices(batch), loader.valid_rows()});
    EXPECT_EQ(loader.end_of_dataloader(), batches.size() == expected.size());
  }
  return batches;
}

class Dispatched : public testing::TestWithParam<std::tuple<Backend, int>> {};

TEST_P(Dispatched, BatchesFollowTheRules) {
  const auto [backend, ranks] = GetParam();
  run_on_ranks(ranks, quick(backend), [&](Group& group) {
    for_all_small_cases([&](std::int64_t n, const ShardRules& rules) {
      // Slower backends run fewer cases.
      if (!rules.dispatch_batches || rules.num_processes != group.size() ||
          rules.process_index != 0 || n % (backend == Backend::fake ? 2 : 5)) {
        return;
      }
      ShardRules local_rules = rules;
      local_rules.process_index = group.rank();
      const auto expected = reference_batches(n, local_rules);
      const auto check = [&](auto loader) {
        loader.shard(dispatch_on(group, rules));
        ASSERT_EQ(read_and_check_end(loader, expected), expected)
            << name_of_case(n, local_rules);
      };
      check(DataLoader(
          Counting{n},
          {.batch_size = rules.batch_size, .drop_last = rules.drop_last}));
      check(DataLoader(
          CountingStream{n},
          {.batch_size = rules.batch_size, .drop_last = rules.drop_last}));
    });
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends,
    Dispatched,
    testing::Values(
        std::tuple(Backend::fake, 2),
        std::tuple(Backend::fake, 3),
        std::tuple(Backend::fake, 5),
        std::tuple(Backend::shm, 3),
        std::tuple(Backend::gloo, 2)),
    [](const auto& of) {
      return std::string(name_of(std::get<0>(of.param))) + "_" +
             std::to_string(std::get<1>(of.param));
    });

TEST(Dispatch, IsTheDefaultForStreams) {
  run_on_ranks(2, quick(Backend::fake), [](Group& group) {
    // Only rank 0 has any data.
    DataLoader loader(
        CountingStream{group.rank() == 0 ? 6 : 0}, {.batch_size = 2});
    ShardOptions options = dispatch_on(group);
    options.configuration.dispatch_batches = std::nullopt;
    loader.shard(options);

    EXPECT_EQ(read_all(loader).size(), 2);
  });
}

TEST(Dispatch, ReadsAheadWithWorkers) {
  run_on_ranks(3, quick(Backend::fake), [](Group& group) {
    DataLoader loader(
        Counting{100},
        {.batch_size = 2, .shuffle = true, .num_workers = 2, .seed = 3});
    loader.shard(dispatch_on(group));
    std::vector<std::int64_t> seen;

    for (at::Tensor& batch : loader) {
      const auto indices = to_indices(batch.narrow(0, 0, loader.valid_rows()));
      seen.insert(seen.end(), indices.begin(), indices.end());
    }

    const auto rows =
        group.gather({at::full({static_cast<std::int64_t>(seen.size())}, 1)});
    EXPECT_EQ(rows[0].size(0), 100);
  });
}

TEST(Dispatch, LetsShapesDifferBetweenRanks) {
  run_on_ranks(3, quick(Backend::shm), [](Group& group) {
    // The length of each batch equals its first sample.
    DataLoader loader(
        Counting{9}, {.collate = [](std::vector<std::int64_t> samples) {
          return at::arange(samples.front() + 1);
        }});
    loader.shard(dispatch_on(group));
    std::int64_t step = 0;

    for (at::Tensor& batch : loader) {
      EXPECT_EQ(batch.size(0), 3 * step++ + group.rank() + 1);
    }

    EXPECT_EQ(step, 3);
  });
}

struct Picture {
  at::Tensor pixels;
  std::optional<at::Tensor> mask;
};

template <typename F>
void for_each_tensor(Picture& picture, F f) {
  f(picture.pixels);
  f(picture.mask);
}

using Everything = std::tuple<
    TensorMap,
    std::vector<at::Tensor>,
    std::pair<std::array<at::Tensor, 2>, std::map<int, at::Tensor>>,
    torch::data::Example<>,
    Picture>;

Everything everything_of(std::int64_t i) {
  const auto tensor = [&](std::int64_t more) {
    return at::full({i + more}, i * 100 + more);
  };
  return {
      {{"a" + std::to_string(i), tensor(1)}},
      std::vector<at::Tensor>(static_cast<std::size_t>(i), tensor(2)),
      {{tensor(3), tensor(0)}, {{static_cast<int>(i), tensor(4)}}},
      {tensor(5), tensor(6).to(at::kBFloat16)},
      {tensor(7), i % 2 ? std::optional(tensor(8)) : std::nullopt}};
}

TEST(Dispatch, SendsAnyNest) {
  run_on_ranks(3, quick(Backend::fake), [](Group& group) {
    DataLoader loader(
        Counting{6}, {}, [](const std::vector<std::int64_t>& samples) {
          return everything_of(samples.front());
        });
    loader.shard(dispatch_on(group));
    std::int64_t i = group.rank();

    for (Everything& batch : loader) {
      Everything expected = everything_of(i);
      EXPECT_EQ(detail::describe_nest(batch), detail::describe_nest(expected));
      const auto got = tensors_of(batch);
      const auto should = tensors_of(expected);
      for (std::size_t t = 0; t < got.size(); ++t) {
        EXPECT_TRUE(got[t].equal(should[t])) << t;
      }
      i += group.size();
    }

    EXPECT_EQ(i, 6 + group.rank());
  });
}

// These views share the memory of other values, and have a flag.
TEST(Dispatch, SendsLazyConjugatesAndNegatives) {
  run_on_ranks(2, quick(Backend::fake), [](Group& group) {
    DataLoader loader(
        Counting{4}, {}, [](const std::vector<std::int64_t>& samples) {
          const auto value = static_cast<double>(samples.front() + 1);
          return std::pair(
              at::full({1}, value)._neg_view(),
              at::full({1}, c10::complex<double>(0, value))._conj());
        });
    loader.shard(dispatch_on(group));
    double expected = -1.0 - group.rank();

    for (const auto& [negative, conjugate] : loader) {
      EXPECT_EQ(negative.item<double>(), expected);
      EXPECT_EQ(
          conjugate.item<c10::complex<double>>(),
          c10::complex<double>(0, expected));
      expected -= 2;
    }

    EXPECT_EQ(expected, -5.0 - group.rank());
  });
}

TEST(Dispatch, SendsTheStructureOnlyWhenItChanges) {
  run_on_ranks(2, quick(Backend::fake), [](Group& group) {
    // Five equal steps and one step with a single row per rank.
    const auto join = [](std::vector<std::int64_t> samples) {
      return default_collate(std::move(samples));
    };
    const auto source = std::make_shared<
        detail::MapSource<Counting, at::Tensor, decltype(join)>>(
        std::make_shared<Counting>(Counting{22}), join);
    MapEpoch epoch{
        .source = source,
        .order = [](std::int64_t position) { return position; },
        .dataset_size = 22,
        .units = 22};
    for (std::int64_t r = 0; r < 2; ++r) {
      epoch.rules.push_back(
          {.batch_size = 2,
           .num_processes = 2,
           .process_index = r,
           .dispatch_batches = true});
    }
    Dispatch dispatch(
        group,
        source,
        group.rank() == 0 ? std::make_unique<MapSteps>(epoch) : nullptr);
    int steps = 0;

    while (dispatch.next()) {
      ++steps;
    }

    EXPECT_EQ(steps, 6);
    EXPECT_EQ(dispatch.structures_sent(), 2);
  });
}

struct FailingStream {
  std::int64_t fails_at = 0;
  std::int64_t index = 0;

  std::optional<std::int64_t> next() {
    if (index == fails_at) {
      throw IoError("the server hung up", "start it again");
    }
    return index++;
  }
};

TEST(Dispatch, ThrowsOnEveryRankWhenTheStreamThrows) {
  run_on_ranks(3, quick(Backend::shm), [](Group& group) {
    DataLoader loader(FailingStream{7}, {.batch_size = 1});
    loader.shard(dispatch_on(group));
    int steps = 0;
    const auto loop = [&] {
      for (auto& batch : loader) {
        static_cast<void>(batch);
        ++steps;
      }
    };

    if (group.rank() == 0) {
      EXPECT_EQ(
          message_of<IoError>(loop),
          "sample 7 of the dataset: the server hung up");
    } else {
      EXPECT_EQ(
          message_of<RankError>(loop),
          "rank 0 failed while reading the data for all ranks\n"
          "  rank 0: sample 7 of the dataset: the server hung up");
    }
    EXPECT_EQ(steps, 2);
    group.barrier();  // The process group is still usable.
  });
}

TEST(Dispatch, RestartsAfterALoopThatEndedEarly) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    DataLoader loader(Counting{12}, {.batch_size = 2, .num_workers = 1});
    loader.shard(dispatch_on(group));
    for (auto& batch : loader) {
      static_cast<void>(batch);
      break;
    }

    EXPECT_EQ(read_all(loader).size(), 3);
  });
}

TEST(Dispatch, ResumesWithAnotherNumberOfRanks) {
  const auto make = [](Group& group) {
    DataLoader loader(CountingStream{20}, {.batch_size = 2});
    loader.shard(dispatch_on(group));
    return loader;
  };
  Json state;
  run_on_ranks(3, quick(Backend::fake), [&](Group& group) {
    auto loader = make(group);
    auto loop = loader.begin();
    ++loop;
    if (group.rank() == 2) {
      state = loader.state_dict();
    }
  });

  run_on_ranks(2, quick(Backend::fake), [&](Group& group) {
    auto loader = make(group);
    loader.load_state_dict(state);
    const std::int64_t first = 12 + 2 * group.rank();
    EXPECT_EQ(
        read_all(loader).front(),
        (std::vector<std::int64_t>{first, first + 1}));
  });
}

TEST(Dispatch, SendsLargeBatches) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    DataLoader loader(
        Counting{4}, {.collate = [](std::vector<std::int64_t> samples) {
          return at::full({1 << 20}, samples.front());
        }});
    loader.shard(dispatch_on(group));
    std::int64_t i = group.rank();

    for (at::Tensor& batch : loader) {
      EXPECT_TRUE(batch.eq(i).all().item<bool>());
      i += 2;
    }
  });
}

}  // namespace
}  // namespace accelerate
