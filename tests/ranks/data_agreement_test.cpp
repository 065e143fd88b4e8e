// SPDX-License-Identifier: Apache-2.0
// Tests the agreement between ranks before each rank reads its own part of the
// data.
#include <string>

#include <gtest/gtest.h>

#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "support/counting_datasets.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

ShardOptions shard_on(Group& group) {
  ShardOptions options;
  options.process_index = group.rank();
  options.num_processes = group.size();
  options.group = group;
  return options;
}

at::Generator seeded(std::uint64_t seed) {
  auto generator = detail::make_generator();
  generator.set_current_seed(seed);
  return generator;
}

TEST(LoaderAgreement, GivesEveryRankTheSeedOfRankZero) {
  run_on_ranks(3, quick(Backend::fake), [](Group& group) {
    const auto rank = static_cast<std::uint64_t>(group.rank());
    DataLoader loader(
        Counting{30}, {.shuffle = true, .generator = seeded(rank + 5)});
    loader.shard(shard_on(group));

    EXPECT_EQ(loader.state_dict().at("seed").as_string(), "5");
  });
}

TEST(LoaderAgreement, RefusesSeedsThatWereChosenDifferently) {
  run_on_ranks(2, quick(Backend::fake), [](Group& group) {
    const auto rank = static_cast<std::uint64_t>(group.rank());
    DataLoader loader(Counting{30}, {.shuffle = true, .seed = rank});

    EXPECT_EQ(
        message_of<MismatchError>([&] { loader.shard(shard_on(group)); }),
        "the processes prepare data loaders with different seeds\n"
        "  rank 0: \"0\"\n  rank 1: \"1\"");
  });
}

TEST(LoaderAgreement, RefusesDatasetsOfDifferentSizes) {
  run_on_ranks(2, quick(Backend::fake), [](Group& group) {
    DataLoader loader(Counting{30 + group.rank()}, {});

    EXPECT_EQ(
        message_of<MismatchError>([&] { loader.shard(shard_on(group)); }),
        "the processes prepare data loaders with different dataset sizes\n"
        "  rank 0: 30\n  rank 1: 31");
  });
}

TEST(LoaderAgreement, SynchronisesTheGeneratorWhenALoopBegins) {
  run_on_ranks(3, quick(Backend::fake), [](Group& group) {
    auto generator = seeded(static_cast<std::uint64_t>(group.rank()));
    DataLoader loader(Counting{30}, {.generator = generator});
    ShardOptions options = shard_on(group);
    options.rng_types = {RngType::generator};
    loader.shard(options);

    const auto loop = loader.begin();

    EXPECT_TRUE(generator.get_state().equal(seeded(0).get_state()));
  });
}

}  // namespace
}  // namespace accelerate
