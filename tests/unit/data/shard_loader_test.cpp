// SPDX-License-Identifier: Apache-2.0
// Tests the loaders of several processes without communication: the samples
// that they read and the position at which they resume.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "support/counting_datasets.h"
#include "support/message_of.h"
#include "support/reference_shards.h"

namespace accelerate {
namespace {

ShardOptions options_of(const ShardRules& rules) {
  ShardOptions options;
  options.process_index = rules.process_index;
  options.num_processes = rules.num_processes;
  options.configuration.split_batches = rules.split_batches;
  options.configuration.even_batches = rules.even_batches;
  options.configuration.dispatch_batches = false;
  return options;
}

template <typename Loader>
std::vector<ReferenceBatch> read_with_rows(Loader& loader) {
  std::vector<ReferenceBatch> batches;
  for (at::Tensor& batch : loader) {
    batches.push_back({to_indices(batch), loader.valid_rows()});
  }
  return batches;
}

// A single process does not complete the last step.
ShardRules effective(ShardRules rules) {
  rules.even_batches = rules.even_batches && rules.num_processes > 1;
  return rules;
}

TEST(ShardedLoader, ReadsAccordingToTheRules) {
  for_all_small_cases([](std::int64_t n, const ShardRules& rules) {
    if (rules.dispatch_batches) {
      return;
    }
    DataLoader loader(
        Counting{n},
        {.batch_size = rules.batch_size, .drop_last = rules.drop_last});
    loader.shard(options_of(rules));

    const auto expected = reference_batches(n, effective(rules));

    ASSERT_EQ(read_with_rows(loader), expected) << name_of_case(n, rules);
    ASSERT_EQ(loader.size(), static_cast<std::int64_t>(expected.size()));
  });
}

// The batches that the processes read in each step, one after another.
template <typename MakeLoader>
std::vector<ReferenceBatch> joined_batches(
    const MakeLoader& make_loader, ShardOptions options) {
  std::vector<ReferenceBatch> joined;
  for (std::int64_t rank = 0; rank < options.num_processes; ++rank) {
    options.process_index = rank;
    auto loader = make_loader();
    loader.shard(options);
    const auto batches = read_with_rows(loader);
    joined.resize(std::max(joined.size(), batches.size()));
    for (std::size_t k = 0; k < batches.size(); ++k) {
      auto& [samples, valid_rows] = joined[k];
      const auto& part = batches[k].samples;
      samples.insert(samples.end(), part.begin(), part.end());
      valid_rows += batches[k].valid_rows;
    }
  }
  return joined;
}

// A process with several devices reads what as many processes would read.
template <typename MakeLoader>
void expect_devices_like_processes(const MakeLoader& make_loader) {
  for (std::int64_t devices = 1; devices <= 3; ++devices) {
    for (const bool even : {false, true}) {
      ShardOptions processes;
      processes.num_processes = devices;
      processes.configuration.even_batches = even;
      processes.configuration.dispatch_batches = false;
      ShardOptions single = processes;
      single.num_processes = 1;
      single.devices_per_process = devices;
      auto loader = make_loader();
      loader.shard(single);

      EXPECT_EQ(read_with_rows(loader), joined_batches(make_loader, processes))
          << devices << " devices, even " << even;
    }
  }
}

TEST(ShardedLoader, ReadsForEachDeviceOfAProcess) {
  for (std::int64_t samples = 0; samples <= 13; ++samples) {
    expect_devices_like_processes([samples] {
      return DataLoader(
          Counting{samples}, {.batch_size = 2, .shuffle = true, .seed = 5});
    });
  }
}

TEST(ShardedLoader, ReadsABatchOfASamplerForEachDevice) {
  expect_devices_like_processes([] {
    using Batches = std::vector<std::vector<std::int64_t>>;
    return DataLoader(
        Counting{10},
        {.batch_sampler = Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}});
  });
}

/// Gives tests access to reading ahead of the loop.
template <typename Dataset>
class ReadAheadLoader : public DataLoader<Dataset> {
 public:
  using DataLoader<Dataset>::DataLoader;

  std::vector<std::vector<std::int64_t>> read_all_ahead() {
    std::vector<std::vector<std::int64_t>> batches;
    for (auto loop = this->begin_reading_ahead(); loop.batch() != nullptr;
         loop.advance()) {
      batches.push_back(to_indices(*static_cast<at::Tensor*>(loop.batch())));
    }
    return batches;
  }
};

TEST(ShardedLoader, CanBeReadAheadOfTheLoop) {
  ReadAheadLoader<Counting> loader(
      Counting{11}, {.batch_size = 2, .shuffle = true, .seed = 3});
  loader.shard(options_of({.num_processes = 2, .process_index = 1}));
  const Json before = loader.state_dict();

  const auto ahead = loader.read_all_ahead();

  EXPECT_EQ(loader.state_dict(), before);
  std::vector<std::vector<std::int64_t>> read;
  for (at::Tensor& batch : loader) {
    read.push_back(to_indices(batch));
  }
  EXPECT_EQ(ahead, read);
  EXPECT_EQ(ahead.size(), 3U);
}

TEST(ShardedLoader, ReadsAStreamAccordingToTheRules) {
  for_all_small_cases([](std::int64_t n, const ShardRules& rules) {
    if (rules.dispatch_batches) {
      return;
    }
    DataLoader loader(
        CountingStream{n},
        {.batch_size = rules.batch_size, .drop_last = rules.drop_last});
    loader.shard(options_of(rules));

    ASSERT_EQ(read_with_rows(loader), reference_batches(n, effective(rules)))
        << name_of_case(n, rules);
  });
}

TEST(ShardedLoader, KnowsTheLastBatchForEveryCase) {
  for_all_small_cases([](std::int64_t n, const ShardRules& rules) {
    if (rules.dispatch_batches) {
      return;
    }
    const auto check = [&](auto& loader) {
      loader.shard(options_of(rules));
      const std::size_t count = reference_batches(n, effective(rules)).size();
      std::size_t seen = 0;
      for (at::Tensor& batch : loader) {
        static_cast<void>(batch);
        ASSERT_EQ(loader.end_of_dataloader(), ++seen == count)
            << name_of_case(n, rules);
      }
    };
    const std::int64_t b = rules.batch_size;
    DataLoader map(
        Counting{n}, {.batch_size = b, .drop_last = rules.drop_last});
    DataLoader stream(
        CountingStream{n}, {.batch_size = b, .drop_last = rules.drop_last});
    check(map);
    check(stream);
  });
}

// The real rows of all processes are the whole dataset, once, except for what
// `drop_last` drops.
TEST(ShardedLoader, SeesEverySampleOnceWhenShuffled) {
  for_all_small_cases([](std::int64_t n, ShardRules rules) {
    if (rules.dispatch_batches || rules.process_index != 0) {
      return;
    }
    std::vector<std::int64_t> seen;
    std::int64_t expected = 0;
    for (auto& r = rules.process_index; r < rules.num_processes; ++r) {
      DataLoader loader(
          Counting{n},
          {.batch_size = rules.batch_size,
           .shuffle = true,
           .drop_last = rules.drop_last,
           .seed = 9});
      loader.shard(options_of(rules));
      for (const ReferenceBatch& batch : read_with_rows(loader)) {
        seen.insert(
            seen.end(),
            batch.samples.begin(),
            batch.samples.begin() + batch.valid_rows);
      }
      for (const ReferenceBatch& batch :
           reference_batches(n, effective(rules))) {
        expected += batch.valid_rows;
      }
    }
    const auto in_order = sorted(seen);
    ASSERT_EQ(in_order.size(), static_cast<std::size_t>(expected));
    ASSERT_EQ(
        std::adjacent_find(in_order.begin(), in_order.end()), in_order.end())
        << name_of_case(n, rules);
    ASSERT_TRUE(rules.drop_last || expected == n) << name_of_case(n, rules);
  });
}

TEST(ShardedLoader, DistributesWholeBatchesOfABatchSampler) {
  const std::vector<std::vector<std::int64_t>> batches = {
      {0}, {1, 2}, {3}, {4, 5}, {6}};
  const auto read = [&](std::int64_t r, bool even) {
    DataLoader loader(Counting{7}, {.batch_sampler = batches});
    loader.shard(options_of(
        {.num_processes = 3, .process_index = r, .even_batches = even}));
    return read_with_rows(loader);
  };

  using Batches = std::vector<ReferenceBatch>;
  EXPECT_EQ(read(0, true), (Batches{{{0}, 1}, {{4, 5}, 2}}));  // rounds of 3
  EXPECT_EQ(read(1, true), (Batches{{{1, 2}, 2}, {{6}, 1}}));
  EXPECT_EQ(read(2, true), (Batches{{{3}, 1}, {{0}, 0}}));
  EXPECT_EQ(read(2, false), (Batches{{{3}, 1}}));
}

// Creates a loader as a new program does.
struct Recipe {
  std::int64_t n = 23;
  ShardRules rules = {.batch_size = 2};
  bool shuffle = true;
  bool seedable = false;
  bool batch_sampler = false;
  std::int64_t workers = 0;

  auto map(std::int64_t p, std::int64_t r, std::uint64_t seed = 4) const {
    DataLoaderOptions<Counting> loader_options{
        .batch_size = rules.batch_size,
        .shuffle = shuffle,
        .num_workers = workers,
        .drop_last = rules.drop_last,
        .seed = seed};
    if (batch_sampler) {
      loader_options.shuffle = false;
      loader_options.batch_size = 1;
      std::vector<std::vector<std::int64_t>> batches;
      for (std::int64_t i = 0; i < n; i += 2) {
        batches.push_back({n - 1 - i});
      }
      loader_options.batch_sampler = batches;
    }
    DataLoader loader(Counting{n}, loader_options);
    loader.shard(options(p, r));
    return loader;
  }
  auto stream(std::int64_t p, std::int64_t r) const {
    DataLoader loader(
        CountingStream{n},
        {.batch_size = rules.batch_size, .drop_last = rules.drop_last});
    loader.shard(options(p, r));
    return loader;
  }

 private:
  ShardOptions options(std::int64_t p, std::int64_t r) const {
    ShardRules shard_rules = rules;
    shard_rules.num_processes = p;
    shard_rules.process_index = r;
    ShardOptions result = options_of(shard_rules);
    result.configuration.use_seedable_sampler = seedable;
    return result;
  }
};

auto shuffled(std::int64_t p, std::int64_t r) {
  return Recipe{}.map(p, r);
}

// Stops after each batch of the second epoch and continues in a new loader.
template <typename Make>
void expect_resume_everywhere(const Make& make, const std::string& name) {
  auto whole = make();
  static_cast<void>(read_all(whole));  // The first epoch.
  std::vector<Json> states = {whole.state_dict()};
  std::vector<ReferenceBatch> batches;
  for (at::Tensor& batch : whole) {
    batches.push_back({to_indices(batch), whole.valid_rows()});
    states.push_back(whole.state_dict());
  }
  for (std::size_t k = 0; k < states.size(); ++k) {
    auto resumed = make();
    resumed.load_state_dict(states[k]);
    const std::vector<ReferenceBatch> rest(
        batches.begin() + static_cast<std::ptrdiff_t>(k), batches.end());
    ASSERT_EQ(read_with_rows(resumed), rest) << name << " after batch " << k;
    ASSERT_EQ(resumed.epoch(), 2) << name << " after batch " << k;
  }
}

TEST(ShardedLoader, ResumesAtEveryPosition) {
  for_all_small_cases([](std::int64_t n, const ShardRules& rules) {
    const bool last = rules.process_index + 1 == rules.num_processes;
    if (rules.dispatch_batches || !last || n % 6 == 4) {
      return;
    }
    const auto p = rules.num_processes;
    const auto r = rules.process_index;
    for (const bool shuffle : {false, true}) {
      const Recipe recipe{.n = n, .rules = rules, .shuffle = shuffle};
      expect_resume_everywhere(
          [&] { return recipe.map(p, r, 4); }, name_of_case(n, rules));
    }
    const Recipe recipe{.n = n, .rules = rules};
    expect_resume_everywhere(
        [&] { return recipe.stream(p, r); },
        "stream, " + name_of_case(n, rules));
  });
}

TEST(ShardedLoader, ResumesWithEveryKindOfOrder) {
  for (const Recipe& recipe :
       {Recipe{.workers = 2},
        Recipe{.seedable = true},
        Recipe{.batch_sampler = true},
        Recipe{.batch_sampler = true, .workers = 2}}) {
    expect_resume_everywhere([&] { return recipe.map(2, 1, 4); }, "recipe");
  }
}

// The samples of the epoch in the order in which all processes use them, for at
// most `steps` steps.
template <typename Make>
std::vector<std::int64_t> global_order(
    const Make& make,
    std::int64_t p,
    const std::optional<Json>& state,
    std::size_t steps) {
  std::vector<std::vector<ReferenceBatch>> rank_batches;
  for (std::int64_t r = 0; r < p; ++r) {
    auto loader = make(p, r);
    if (state) {
      loader.load_state_dict(*state);
    }
    rank_batches.push_back(read_with_rows(loader));
  }
  std::vector<std::int64_t> order;
  for (std::size_t k = 0; k < std::min(steps, rank_batches[0].size()); ++k) {
    for (const auto& batches : rank_batches) {
      if (k < batches.size()) {
        order.insert(
            order.end(),
            batches[k].samples.begin(),
            batches[k].samples.begin() + batches[k].valid_rows);
      }
    }
  }
  return order;
}

// Stops at every position with p processes, then resumes with q processes.
template <typename Make>
void expect_any_number_of_processes(const Make& make, const std::string& name) {
  constexpr std::size_t kAll = 1000;
  const auto expected = global_order(make, 1, std::nullopt, kAll);
  for (const std::int64_t p : {1, 2, 3}) {
    auto stopped = make(p, 0);
    std::size_t steps = 0;
    for (auto& batch : stopped) {
      static_cast<void>(batch);
      ++steps;
      const Json state = stopped.state_dict();
      const auto before = global_order(make, p, std::nullopt, steps);
      for (const std::int64_t q : {1, 2, 3}) {
        auto order = before;
        const auto rest = global_order(make, q, state, kAll);
        order.insert(order.end(), rest.begin(), rest.end());
        ASSERT_EQ(order, expected) << name << ": " << steps << " steps on " << p
                                   << " processes, then " << q;
      }
    }
  }
}

TEST(ShardedLoader, ResumesAtAnyNumberOfProcesses) {
  for (const std::int64_t n : {1, 5, 12, 23}) {
    for (int bits = 0; bits < 8; ++bits) {
      Recipe recipe{.n = n, .shuffle = (bits & 1) != 0};
      recipe.rules.even_batches = (bits & 2) != 0;
      recipe.rules.split_batches = (bits & 4) != 0;
      recipe.rules.batch_size = recipe.rules.split_batches ? 6 : 2;
      expect_any_number_of_processes(
          [&](std::int64_t p, std::int64_t r) { return recipe.map(p, r); },
          name_of_case(n, recipe.rules));
      expect_any_number_of_processes(
          [&](std::int64_t p, std::int64_t r) { return recipe.stream(p, r); },
          "stream, " + name_of_case(n, recipe.rules));
    }
  }
  const Recipe seedable{.seedable = true};
  expect_any_number_of_processes(
      [&](std::int64_t p, std::int64_t r) { return seedable.map(p, r); },
      "seedable");
}

TEST(ShardedLoader, SkipsBatchesAndKeepsTheRest) {
  auto loader = shuffled(2, 1);
  loader.set_epoch(3);
  const auto all = read_with_rows(loader);
  loader.set_epoch(3);

  auto skipped = skip_first_batches(loader, 2);

  EXPECT_EQ(skipped.size(), loader.size() - 2);
  EXPECT_EQ(
      read_with_rows(skipped),
      std::vector<ReferenceBatch>(all.begin() + 2, all.end()));
  EXPECT_EQ(skipped.epoch(), 4);
  EXPECT_EQ(skipped.size(), loader.size());
  EXPECT_EQ(read_with_rows(loader), all);
}

TEST(ShardedLoader, SkipsAllBatchesAndMore) {
  auto loader = shuffled(2, 0);

  auto skipped = skip_first_batches(loader, 100);

  EXPECT_EQ(skipped.size(), 0);
  EXPECT_TRUE(read_all(skipped).empty());
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(skip_first_batches(loader, -1)); }),
      "`batches` is -1");
}

TEST(ShardedLoader, KeepsItsPositionWhenTheSameEpochIsSet) {
  auto loader = shuffled(1, 0);
  auto loop = loader.begin();
  const Json state = loader.state_dict();
  auto resumed = shuffled(1, 0);
  resumed.load_state_dict(state);

  resumed.set_epoch(0);
  EXPECT_EQ(read_all(resumed).size(), 11);
  resumed.load_state_dict(state);
  resumed.set_epoch(1);
  EXPECT_EQ(read_all(resumed).size(), 12);
}

TEST(ShardedLoader, AppliesALaterChangeOfEvenBatches) {
  DataLoader loader(Counting{3}, {.batch_size = 2});
  loader.shard(options_of({.num_processes = 2, .process_index = 1}));

  EXPECT_TRUE(loader.even_batches());
  loader.set_even_batches(false);

  EXPECT_EQ(read_all(loader), (std::vector<std::vector<std::int64_t>>{{2}}));
}

TEST(ShardedLoader, CanBeShardedTwice) {
  auto loader = shuffled(2, 1);
  const auto once = read_all(loader);
  auto again = shuffled(2, 1);
  again.shard(options_of({.num_processes = 2, .process_index = 1}));

  EXPECT_EQ(read_all(again), once);
}

TEST(ShardedLoader, RefusesAStateOfOtherData) {
  const Json state = shuffled(1, 0).state_dict();
  DataLoader smaller(Counting{22}, {.shuffle = true});
  DataLoader ordered(Counting{23});

  EXPECT_EQ(
      message_of<ArgumentError>([&] { smaller.load_state_dict(state); }),
      "the state belongs to a data loader with size 23, but this loader has "
      "22");
  EXPECT_EQ(
      message_of<ArgumentError>([&] { ordered.load_state_dict(state); }),
      "the state belongs to a data loader with order \"shuffle\", but this "
      "loader has "
      "\"sequential\"");
}

TEST(ShardedLoader, RefusesABrokenState) {
  auto loader = shuffled(1, 0);
  Json later = loader.state_dict();
  later["version"] = 2;
  Json outside = loader.state_dict();
  outside["samples_used"] = 24;
  Json no_seed = loader.state_dict();
  no_seed["seed"] = "x";

  EXPECT_EQ(
      message_of<FormatError>([&] { loader.load_state_dict(later); }),
      "the data loader's state has version 2, but this build reads version 1");
  EXPECT_EQ(
      message_of<FormatError>([&] { loader.load_state_dict(outside); }),
      "the data loader's state is at position 24 of epoch 0, outside the "
      "dataset");
  EXPECT_EQ(
      message_of<FormatError>([&] { loader.load_state_dict(no_seed); }),
      "the data loader's state has seed `x`, which is not a number");
}

TEST(ShardedLoader, SavesAFewNumbers) {
  DataLoader loader(
      Counting{10'000'000'000}, {.batch_size = 10, .shuffle = true, .seed = 3});
  loader.load_state_dict(
      Json::parse(R"({"version": 1, "seed": "18446744073709551615",
        "epoch": 2, "samples_used": 1000000000, "size": 10000000000,
        "order": "shuffle"})"));

  auto loop = loader.begin();

  EXPECT_EQ((*loop).size(0), 10);
  EXPECT_EQ(
      loader.state_dict().dump(),
      R"({"version":1,"seed":"18446744073709551615","epoch":2,)"
      R"("samples_used":1000000010,"size":10000000000,"order":"shuffle"})");
}

struct NoNest {
  int value = 0;
};

TEST(ShardedLoader, RefusesRulesThatDoNotFit) {
  DataLoader odd(Counting{9}, {.batch_size = 3});
  DataLoader batches(
      Counting{9}, {.batch_sampler = std::vector<std::vector<std::int64_t>>{}});
  DataLoader structs(Counting{9}, {}, [](const std::vector<std::int64_t>&) {
    return NoNest();
  });
  ShardOptions split;
  split.num_processes = 2;
  split.configuration.split_batches = true;
  ShardOptions dispatch;
  dispatch.num_processes = 2;
  dispatch.configuration.dispatch_batches = true;

  EXPECT_EQ(
      message_of<ArgumentError>([&] { odd.shard(split); }),
      "`split_batches` cannot divide a `batch_size` of 3 among 2 processes");
  EXPECT_EQ(
      message_of<ArgumentError>([&] { odd.shard(dispatch); }),
      "`dispatch_batches` needs a process group in which this process has rank "
      "0 of 2, but got a process group in which it has rank 0 of 1");
  EXPECT_EQ(
      message_of<ArgumentError>([&] { structs.shard(dispatch); }),
      "`dispatch_batches` needs batches that are default-constructible nests "
      "of tensors");
  split.num_processes = 1;
  EXPECT_EQ(
      message_of<ArgumentError>([&] { batches.shard(split); }),
      "`split_batches` needs a `batch_size`, but a batch sampler has none");
}

}  // namespace
}  // namespace accelerate
