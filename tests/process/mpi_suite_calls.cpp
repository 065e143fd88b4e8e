// SPDX-License-Identifier: Apache-2.0
// Call order, layouts, futures, and messages during collectives.
#include <atomic>
#include <cmath>

#include "mpi_suite.h"

namespace accelerate {
namespace {

TEST(Mpi, AllToAllBaseSplitsEvenlyByDefault) {
  auto from = at::arange(4 * size()).add(100 * rank());
  auto to = at::empty_like(from);
  std::vector<std::int64_t> none;

  world->alltoall_base(to, from, none, none, {})->wait();

  for (int r = 0; r < size(); ++r) {
    expect_equal(
        to.slice(0, 4 * r, 4 * r + 4),
        at::arange(4 * rank(), 4 * rank() + 4).add(100 * r));
  }
}

TEST(Mpi, AllGatherTakesUnequalLengths) {
  TensorList inputs = {input_of(rank(), {100 * rank()}, at::kFloat)};
  std::vector<TensorList> outputs(1);
  for (int r = 0; r < size(); ++r) {
    outputs[0].push_back(at::empty({100 * r}));
  }

  world->allgather(outputs, inputs, {})->wait();

  for (int r = 0; r < size(); ++r) {
    expect_equal(outputs[0][r], input_of(r, {100 * r}, at::kFloat));
  }
}

TEST(Mpi, CoalescedCallsWorkOnEachTensor) {
  TensorList sums;
  TensorList inputs;
  TensorList gathered;
  TensorList scattered;
  for (const std::int64_t count : {3, 0, 5000}) {
    sums.push_back(input_of(rank(), {count}, at::kFloat));
    inputs.push_back(input_of(rank(), {size() * count}, at::kDouble));
    gathered.push_back(
        at::empty({size() * size() * count}, at::TensorOptions(at::kDouble)));
    scattered.push_back(at::empty({count}, at::TensorOptions(at::kDouble)));
  }

  world->allreduce_coalesced(sums, {})->wait();
  world->allgather_into_tensor_coalesced(gathered, inputs, {})->wait();
  world->reduce_scatter_tensor_coalesced(scattered, inputs, {})->wait();

  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto count = sums[i].numel();
    const auto part = [&](int r) {
      return input_of(r, {size() * count}, at::kDouble);
    };
    expect_equal(sums[i], reduced(ReduceOp::SUM, size(), [&](int r) {
                   return input_of(r, {count}, at::kFloat);
                 }));
    expect_equal(
        scattered[i],
        reduced(ReduceOp::SUM, size(), part)
            .slice(0, rank() * count, (rank() + 1) * count));
    for (int r = 0; r < size(); ++r) {
      const auto begin = r * size() * count;
      expect_equal(
          gathered[i].slice(0, begin, begin + size() * count), part(r));
    }
  }
}

TEST(Mpi, TensorsNeedNotBeContiguous) {
  const auto matrix_of = [](int r) {
    return input_of(r, {40, 60}, at::kFloat);
  };
  TensorList summed = {matrix_of(rank()).t()};
  TensorList cast = {matrix_of(rank()).slice(1, 0, 60, 2)};
  auto gathered = at::empty({60, 40 * size()}).t();
  auto inputs = matrix_of(rank());
  ASSERT_FALSE(summed[0].is_contiguous() || gathered.is_contiguous());

  world->allreduce(summed, {})->wait();
  world->broadcast(cast, {})->wait();
  world->_allgather_base(gathered, inputs, {})->wait();

  expect_equal(summed[0], reduced(ReduceOp::SUM, size(), matrix_of).t());
  expect_equal(cast[0], matrix_of(0).slice(1, 0, 60, 2));
  expect_equal(gathered.slice(0, 0, 40), matrix_of(0));

  TensorList out = {matrix_of(rank()).t()};
  TensorList in = {at::empty({40, 60}).t()};
  auto sending = world->send(out, (rank() + 1) % size(), 0);
  world->recv(in, (rank() + size() - 1) % size(), 0)->wait();
  sending->wait();
  expect_equal(in[0], matrix_of((rank() + size() - 1) % size()).t());
}

TEST(Mpi, NanPropagates) {
  for (const auto op : {ReduceOp::MIN, ReduceOp::MAX}) {
    for (int nan_rank = 0; nan_rank < size(); ++nan_rank) {
      TensorList tensors = {at::full(
          {3},
          rank() == nan_rank ? std::nan("") : static_cast<double>(rank()))};
      c10d::AllreduceOptions options;
      options.reduceOp = op;

      world->allreduce(tensors, options)->wait();

      EXPECT_TRUE(tensors[0].isnan().all().item<bool>());
    }
  }
}

TEST(Mpi, QueuedCallsRunInOrder) {
  TensorList tensors = {at::ones({2, 3}).t()};
  std::vector<c10::intrusive_ptr<c10d::Work>> works;

  for (int i = 0; i < 8; ++i) {
    works.push_back(world->allreduce(tensors, {}));
  }
  works.back()->wait();

  EXPECT_TRUE(works.front()->isCompleted());
  EXPECT_EQ(tensors[0][0][0].item<float>(), std::pow(size(), 8));
}

TEST(Mpi, SendDoesNotBlockCollectives) {
  TensorList big = {at::full({1 << 20}, rank() + 1.0)};
  TensorList sum = {at::ones({1})};

  // Too large to be sent before the receiver has posted its receive.
  auto sending = rank() == 0 ? world->send(big, 1, 9) : nullptr;
  world->allreduce(sum, {})->wait();
  if (rank() == 1) {
    world->recv(big, 0, 9)->wait();
    EXPECT_EQ(big[0][12345].item<float>(), 1.0F);
  }

  EXPECT_EQ(sum[0].item<float>(), static_cast<float>(size()));
  if (sending) {
    EXPECT_TRUE(sending->wait());
  }
}

TEST(Mpi, RecvAnysourceReportsTheSource) {
  if (rank() != 0) {
    TensorList out = {at::full({4}, 1.0 * rank())};
    world->send(out, 0, 3)->wait();
    return;
  }
  std::vector<bool> seen(static_cast<std::size_t>(size()), false);
  for (int i = 1; i < size(); ++i) {
    TensorList in = {at::zeros({4})};

    auto work = world->recvAnysource(in, 3);
    work->wait();

    const int source = work->sourceRank();
    EXPECT_EQ(in[0][3].item<int>(), source);
    EXPECT_FALSE(seen[static_cast<std::size_t>(source)]);
    seen[static_cast<std::size_t>(source)] = true;
  }
}

TEST(Mpi, WorksHaveFuturesAndResults) {
  TensorList tensors = {at::ones({5})};
  std::atomic<bool> called = false;

  auto work = world->allreduce(tensors, {});
  auto after = work->getFuture()->then(
      [&](c10::ivalue::Future& done) {
        called = true;
        return done.value();
      },
      c10::ListType::create(c10::TensorType::get()));
  after->wait();

  EXPECT_TRUE(called);
  EXPECT_TRUE(work->wait(std::chrono::seconds(20)));
  EXPECT_TRUE(work->isSuccess());
  EXPECT_EQ(work->result()[0].data_ptr(), tensors[0].data_ptr());
  EXPECT_EQ(
      work->getFuture()->value().toTensorVector()[0][0].item<float>(), size());
  EXPECT_EQ(work->retrieveOpType(), c10d::OpType::ALLREDUCE);
  EXPECT_EQ(work->getSequencenumber(), world->getSequenceNumberForGroup());
}

TEST(Mpi, WritesToLeavesThatRequireGradients) {
  TensorList tensors = {at::ones({2, 2}).t().requires_grad_()};

  world->allreduce(tensors, {})->wait();

  EXPECT_EQ(tensors[0][1][0].item<float>(), size());
}

TEST(Mpi, HasNameOptionsAndRank) {
  EXPECT_EQ(world->getBackendName(), "mpi");
  EXPECT_EQ(world->getError(), c10d::ErrorType::SUCCESS);
  EXPECT_EQ(world->getBackendOptions()->timeout, std::chrono::seconds(20));
  EXPECT_EQ(world->getRank(), world_rank());
  EXPECT_EQ(world->getSize(), world_size());
}

}  // namespace
}  // namespace accelerate
