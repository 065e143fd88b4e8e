// SPDX-License-Identifier: Apache-2.0
// Calls that must fail, and leave the group as it was.
#include <string>

#include "accelerate/error.h"
#include "mpi_suite.h"

namespace accelerate {
namespace {

/// A call that must fail on every rank, and how.
struct BadCall {
  std::string name;
  std::function<void()> call;
  std::string text;
};

template <typename ErrorType>
void expect_error(const BadCall& bad) {
  SCOPED_TRACE(bad.name);
  try {
    bad.call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ErrorType& error) {
    EXPECT_EQ(error.what(), bad.text);
    EXPECT_FALSE(error.hint().empty());
  }
}

void all_reduce_of(const at::Tensor& tensor, ReduceOp op = ReduceOp::SUM) {
  TensorList tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  world->allreduce(tensors, options)->wait();
}

TEST(Mpi, BadArgumentsAreNamedAndHarmless) {
  const std::string of_size = std::to_string(size());
  auto ten = at::zeros({10});
  auto three = at::zeros({3});
  TensorList two = {three, three};
  TensorList one = {three};
  std::vector<std::int64_t> none;
  std::vector<std::int64_t> some = {1};
  c10d::BroadcastOptions nobody;
  nobody.rootRank = size();
  const std::vector<BadCall> calls = {
      {"device",
       [] { all_reduce_of(at::zeros({2}, at::kMeta)); },
       "all_reduce: the `mpi` backend takes dense CPU tensors, got a dense one "
       "on meta"},
      {"layout",
       [] { all_reduce_of(at::eye(3).to_sparse()); },
       "all_reduce: the `mpi` backend takes dense CPU tensors, got a sparse "
       "one on cpu"},
      {"undefined",
       [] { all_reduce_of(at::Tensor()); },
       "all_reduce: the tensor is undefined"},
      {"two tensors",
       [&] { world->allreduce(two, {}); },
       "all_reduce: got 2 tensors, needs 1"},
      {"root",
       [&] { world->broadcast(one, nobody); },
       "broadcast: there is no rank " + of_size + " in a group of " + of_size},
      {"peer",
       [&] { world->send(one, -1, 0); },
       "send: there is no rank -1 in a group of " + of_size},
      {"tag", [&] { world->recv(one, 0, -5); }, "recv: there is no tag -5"},
      {"gather size",
       [&] { world->_allgather_base(ten, three, {}); },
       "all_gather: got 10 output elements, needs " +
           std::to_string(3 * size())},
      {"splits",
       [&] { world->alltoall_base(ten, ten, some, none, {}); },
       size() == 2
           ? "all_to_all: got 1 split sizes, needs 2"
           : "all_to_all: 10 rows of input do not divide by " + of_size},
      {"types",
       [&] {
         auto out = at::zeros({3 * size()}, at::kLong);
         world->_allgather_base(out, three, {});
       },
       "all_gather: tensors of type Float and Long in one call"},
  };
  for (const BadCall& bad : calls) {
    expect_error<ArgumentError>(bad);
  }
  all_reduce_of(three);  // The group still works.
}

TEST(Mpi, UnsupportedReductionsAreNamed) {
  const std::vector<BadCall> calls = {
      {"bool avg",
       [] { all_reduce_of(at::ones({2}, at::kBool), ReduceOp::AVG); },
       "bool tensors have no average"},
      {"bits",
       [] { all_reduce_of(at::ones({2}, at::kLong), ReduceOp::BXOR); },
       "the `mpi` backend cannot reduce Long tensors by bitwise xor"},
      {"complex",
       [] { all_reduce_of(at::ones({2}, at::kComplexFloat)); },
       "tensors of type ComplexFloat cannot be reduced"},
  };
  for (const BadCall& bad : calls) {
    expect_error<UnsupportedError>(bad);
  }
  all_reduce_of(at::ones({1}));
}

}  // namespace
}  // namespace accelerate
