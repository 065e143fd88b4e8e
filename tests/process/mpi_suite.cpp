// SPDX-License-Identifier: Apache-2.0
// Tests the order of calls, layouts and several process groups with the `mpi`
// backend. The conformance checks in group_suite.cpp compare every operation
// with a plain loop over ranks. mpirun starts this program on each rank (see
// mpi_test.cpp), and all ranks run the same tests.
#include "mpi_suite.h"

#include <iostream>
#include <string>

namespace accelerate {

BackendPtr world;

const std::vector<at::ScalarType>& all_types() {
  static const std::vector<at::ScalarType> types = {
      at::kDouble,
      at::kFloat,
      at::kBFloat16,
      at::kHalf,
      at::kLong,
      at::kInt,
      at::kShort,
      at::kChar,
      at::kByte,
      at::kBool};
  return types;
}

const std::vector<ReduceOp::RedOpType>& all_ops() {
  static const std::vector<ReduceOp::RedOpType> ops = {
      ReduceOp::SUM,
      ReduceOp::AVG,
      ReduceOp::PRODUCT,
      ReduceOp::MIN,
      ReduceOp::MAX};
  return ops;
}

bool is_supported(ReduceOp::RedOpType op, at::ScalarType type) {
  return type != at::kBool || op != ReduceOp::AVG;
}

namespace {

at::Tensor combine(
    ReduceOp::RedOpType op, const at::Tensor& a, const at::Tensor& b) {
  const bool is_bool = a.scalar_type() == at::kBool;
  switch (op) {
    case ReduceOp::PRODUCT:
      return is_bool ? a.logical_and(b) : a.mul(b);
    case ReduceOp::MIN:
      return at::minimum(a, b);
    case ReduceOp::MAX:
      return at::maximum(a, b);
    default:
      return is_bool ? a.logical_or(b) : a.add(b);
  }
}

}  // namespace

at::Tensor reduced(
    ReduceOp::RedOpType op,
    int ranks,
    const std::function<at::Tensor(int)>& input) {
  const auto type = input(0).scalar_type();
  const bool narrow = type == at::kHalf || type == at::kBFloat16;
  const auto wide = narrow ? at::kFloat : type;
  at::Tensor sum = input(0).to(wide);
  for (int r = 1; r < ranks; ++r) {
    sum = combine(op, sum, input(r).to(wide));
  }
  if (op == ReduceOp::AVG) {
    const auto count = at::scalar_tensor(ranks, wide);
    sum = at::isFloatingType(type) ? sum.div(count) : sum.div(count, "trunc");
  }
  return sum.to(type);
}

void expect_equal(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_EQ(actual.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(at::equal(actual, expected))
      << "largest difference "
      << (actual.numel() == expected.numel() && actual.numel() > 0
              ? actual.to(at::kDouble)
                    .sub(expected.to(at::kDouble))
                    .abs()
                    .max()
                    .item<double>()
              : -1.0);
}

namespace {

/// Prints only failures, with the rank, because the lines of ranks interleave.
class FailurePrinter : public testing::EmptyTestEventListener {
  // Stores the current test. GoogleTest holds a lock while it reports a
  // failure, so looking up the current test then would deadlock.
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = test.name();
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) {
      std::cerr << "rank " << world_rank() << ", " << test_ << ": "
                << (result.file_name() != nullptr ? result.file_name() : "?")
                << ":" << result.line_number() << "\n"
                << result.message() << std::endl;
    }
  }

  std::string test_;
};

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1);
  if (accelerate::world_rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new accelerate::FailurePrinter);
  }
  accelerate::world = accelerate::new_group();
  const int failed = RUN_ALL_TESTS();
  accelerate::world.reset();
  return failed;
}
