// SPDX-License-Identifier: Apache-2.0
// Every operation of the `mpi` backend against a plain loop over ranks. Run by
// mpirun on each rank (see mpi_test.cpp); the ranks' tests are in step.
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

void expect_equal(const at::Tensor& got, const at::Tensor& wanted) {
  EXPECT_EQ(got.scalar_type(), wanted.scalar_type());
  EXPECT_TRUE(at::equal(got, wanted))
      << "largest difference "
      << (got.numel() == wanted.numel() && got.numel() > 0
              ? got.to(at::kDouble)
                    .sub(wanted.to(at::kDouble))
                    .abs()
                    .max()
                    .item<double>()
              : -1.0);
}

namespace {

/// Prints failures only, with the rank: the ranks' lines are interleaved.
class FailurePrinter : public testing::EmptyTestEventListener {
  // Kept: GoogleTest holds its lock when it reports a failure, so that asking
  // for the current test there would never return.
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
  accelerate::world =
      accelerate::new_group("world", {}, std::chrono::seconds(20));
  const int failed = RUN_ALL_TESTS();
  accelerate::world.reset();
  return failed;
}
