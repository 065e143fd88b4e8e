// SPDX-License-Identifier: Apache-2.0
// Call order, layouts and futures.
#include <atomic>
#include <cmath>

#include "mpi_suite.h"

namespace accelerate {
namespace {

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
}

TEST(Mpi, WritesToLeavesThatRequireGradients) {
  TensorList tensors = {at::ones({2, 2}).t().requires_grad_()};

  world->allreduce(tensors, {})->wait();

  EXPECT_EQ(tensors[0][1][0].item<float>(), size());
}

TEST(Mpi, HasNameAndRank) {
  EXPECT_EQ(world->getBackendName(), "mpi");
  EXPECT_EQ(world->getRank(), world_rank());
  EXPECT_EQ(world->getSize(), world_size());
}

}  // namespace
}  // namespace accelerate
