// SPDX-License-Identifier: Apache-2.0
// Calls that must fail and leave the group usable.
#include <string>

#include "accelerate/error.h"
#include "mpi_suite.h"

namespace accelerate {
namespace {

/// A call that must fail on every rank, and its error.
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

TEST(Mpi, BadArgumentsAreReportedAndTheGroupStaysUsable) {
  const std::string num_ranks = std::to_string(size());
  auto ten = at::zeros({10});
  auto three = at::zeros({3});
  TensorList two_tensors = {three, three};
  TensorList one_tensor = {three};
  std::vector<std::int64_t> none;
  std::vector<std::int64_t> some = {1};
  c10d::BroadcastOptions bad_root;
  bad_root.rootRank = size();
  const std::vector<BadCall> calls = {
      {"device",
       [] { all_reduce_of(at::zeros({2}, at::kMeta)); },
       "all_reduce: the `mpi` backend supports only dense CPU tensors, got "
       "a dense tensor on meta"},
      {"layout",
       [] { all_reduce_of(at::eye(3).to_sparse()); },
       "all_reduce: the `mpi` backend supports only dense CPU tensors, got "
       "a sparse tensor on cpu"},
      {"undefined",
       [] { all_reduce_of(at::Tensor()); },
       "all_reduce: the tensor is undefined"},
      {"two tensors",
       [&] { world->allreduce(two_tensors, {}); },
       "all_reduce: the number of tensors is 2, but must be 1"},
      {"root",
       [&] { world->broadcast(one_tensor, bad_root); },
       "broadcast: rank " + num_ranks + " is not in the group of " + num_ranks +
           " ranks"},
      {"rank",
       [&] { world->send(one_tensor, -1, 0); },
       "send: rank -1 is not in the group of " + num_ranks + " ranks"},
      {"tag",
       [&] { world->recv(one_tensor, 0, -5); },
       "recv: tag -5 is out of range"},
      {"gather size",
       [&] { world->_allgather_base(ten, three, {}); },
       "all_gather: the number of output elements is 10, but must be " +
           std::to_string(3 * size())},
      {"splits",
       [&] { world->alltoall_base(ten, ten, some, none, {}); },
       size() == 2 ? "all_to_all: the number of split sizes is 1, but must be 2"
                   : "all_to_all: the 10 rows of the input cannot be split "
                     "evenly among " +
                         num_ranks + " ranks"},
      {"types",
       [&] {
         auto out = at::zeros({3 * size()}, at::kLong);
         world->_allgather_base(out, three, {});
       },
       "all_gather: all tensors in one call must have the same type, got Float "
       "and Long"},
  };
  for (const BadCall& bad : calls) {
    expect_error<ArgumentError>(bad);
  }
  all_reduce_of(three);  // The group still works.
}

TEST(Mpi, UnsupportedReductionsAreReported) {
  const std::vector<BadCall> calls = {
      {"bool avg",
       [] { all_reduce_of(at::ones({2}, at::kBool), ReduceOp::AVG); },
       "bool tensors cannot be averaged"},
      {"bits",
       [] { all_reduce_of(at::ones({2}, at::kLong), ReduceOp::BXOR); },
       "the `mpi` backend cannot reduce Long tensors with bitwise XOR"},
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
