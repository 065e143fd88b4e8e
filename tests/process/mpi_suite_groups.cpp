// SPDX-License-Identifier: Apache-2.0
// Several groups at the same time, and many calls in one group.
#include <random>
#include <thread>

#include "mpi_suite.h"

namespace accelerate {
namespace {

TEST(Mpi, SubGroupsHaveTheirOwnRanksAndOrder) {
  // The members are the last rank and rank 0, in this order.
  const std::vector<int> members = {size() - 1, 0};
  if (rank() == 0 || rank() == size() - 1) {
    auto pair = new_group(members);
    auto input = at::full({1}, 1.0 * rank());
    auto all = at::empty({2});
    ASSERT_EQ(pair->getRank(), rank() == 0 ? 1 : 0);

    pair->_allgather_base(all, input, {})->wait();

    EXPECT_EQ(all[0].item<int>(), size() - 1);
    EXPECT_EQ(all[1].item<int>(), 0);
  }
  auto alone = new_group({rank()});
  TensorList tensors = {at::full({3}, 7.0)};

  alone->allreduce(tensors, {})->wait();
  alone->barrier({})->wait();

  EXPECT_EQ(alone->getSize(), 1);
  EXPECT_EQ(tensors[0][2].item<float>(), 7.0F);
}

TEST(Mpi, GroupsWorkAtTheSameTimeOnDifferentThreads) {
  auto second = new_group();
  const auto average = [](BackendPtr group, float* result) {
    TensorList tensors = {at::ones({257})};
    c10d::AllreduceOptions options;
    options.asyncOp = false;
    options.reduceOp = ReduceOp::AVG;
    for (int i = 0; i < 500; ++i) {
      group->allreduce(tensors, options)->wait();
    }
    *result = tensors[0][256].item<float>();
  };
  float world_result = 0;
  float second_result = 0;

  std::thread other(average, second, &second_result);
  average(world, &world_result);
  other.join();

  EXPECT_EQ(world_result, 1.0F);
  EXPECT_EQ(second_result, 1.0F);
}

TEST(Mpi, ManyGroupsAreCreatedAndDestroyed) {
  for (int i = 0; i < 50; ++i) {
    auto group = new_group();
    TensorList tensors = {at::full({1}, i)};
    group->allreduce(tensors, {})->wait();
    EXPECT_EQ(tensors[0].item<int>(), i * size());
  }
}

// Makes one random call. Each rank uses the same random numbers.
void mixed_call(std::mt19937& random, int salt) {
  const auto type = all_types()[random() % all_types().size()];
  const auto op = all_ops()[random() % all_ops().size()];
  const auto count = static_cast<std::int64_t>(random() % 40);
  const int root = static_cast<int>(random() % static_cast<unsigned>(size()));
  const bool async = random() % 2 == 0;
  const auto each = [&](int r) { return input_of(r, {count}, type, salt); };
  TensorList tensors = {each(rank())};
  switch (random() % 5) {
    case 0: {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      options.asyncOp = async;
      world->broadcast(tensors, options)->wait();
      return expect_equal(tensors[0], each(root));
    }
    case 1: {
      auto all = at::empty({size(), count}, type);
      c10d::AllgatherOptions options;
      options.asyncOp = async;
      world->_allgather_base(all, tensors[0], options)->wait();
      return expect_equal(all[root], each(root));
    }
    case 2: {
      c10d::BarrierOptions options;
      options.asyncOp = async;
      world->barrier(options)->wait();
      return;
    }
    default: {
      c10d::AllreduceOptions options;
      options.reduceOp = is_supported(op, type) ? op : ReduceOp::SUM;
      options.asyncOp = async;
      world->allreduce(tensors, options)->wait();
      return expect_equal(
          tensors[0], reduced(options.reduceOp.op_, size(), each));
    }
  }
}

TEST(Mpi, TenThousandMixedCalls) {
  std::mt19937 random(20261115);
  for (int i = 0; i < 10000 && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "call " << i);
    mixed_call(random, i);
  }
}

}  // namespace
}  // namespace accelerate
