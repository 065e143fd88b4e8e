// SPDX-License-Identifier: Apache-2.0
// One process of a group over NCCL: `gpu_collectives group|collectives`. The
// first argument `group` only creates the group; `collectives` compares every
// collective with a plain implementation.
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "accelerate/partial_state.h"
#include "base/str_cat.h"
#include "support/plain_collectives.h"

namespace accelerate {
namespace {

// Empty, one element, an odd length, and several chunks of NCCL.
const std::vector<std::int64_t> kSizes = {0, 1, 1023, 400'001};

struct Reduced {
  Reduction reduction;
  c10d::ReduceOp::RedOpType plain;
};
const std::vector<Reduced> kReductions = {
    {Reduction::sum, c10d::ReduceOp::SUM},
    {Reduction::mean, c10d::ReduceOp::AVG},
    {Reduction::max, c10d::ReduceOp::MAX},
    {Reduction::min, c10d::ReduceOp::MIN}};

class Collectives {
 public:
  Collectives(const Group& group, c10::Device device)
      : group_(group), device_(device) {}

  void check() {
    for (const auto type : promised_types()) {
      for (const std::int64_t size : kSizes) {
        check_reductions(type, size);
        check_broadcast(type, size);
        check_gather(type, size);
      }
    }
  }

 private:
  at::Tensor own(at::ScalarType type, std::int64_t count) const {
    return input_of(group_.rank(), type, count).to(device_);
  }

  // NCCL multiplies by 1 / n instead of dividing by n, which may round the last
  // bit of a mean differently.
  static void expect_reduced(
      Reduction reduction,
      const at::Tensor& actual,
      const at::Tensor& expected,
      const std::string& title) {
    const at::Tensor copy = actual.cpu();
    const bool last_bits_differ =
        reduction == Reduction::mean &&
        at::allclose(copy, expected, epsilon_of(copy.scalar_type()), 0);
    expect_equal(last_bits_differ ? expected : copy, expected, title);
  }

  static double epsilon_of(at::ScalarType type) {
    switch (type) {
      case at::kDouble:
        return 0x1p-52;
      case at::kFloat:
        return 0x1p-23;
      case at::kHalf:
        return 0x1p-10;
      default:
        return 0x1p-7;
    }
  }

  void check_reductions(at::ScalarType type, std::int64_t size) {
    for (const auto& [reduction, plain] : kReductions) {
      if (!can_reduce(group_, type, plain) ||
          (reduction == Reduction::mean && !at::isFloatingType(type))) {
        continue;
      }
      const std::string title =
          str_cat(name_of(reduction), " of ", type, " x ", size);
      const at::Tensor expected =
          plain_reduce(inputs_of_all(group_.size(), type, size), plain);
      const at::Tensor tensor = own(type, size);
      Pending pending = group_.start_all_reduce(tensor, reduction);
      pending.wait();
      expect_reduced(
          reduction, tensor, expected, str_cat("all_reduce, ", title));
      check_reduce_scatter(reduction, plain, type, size, title);
    }
  }

  void check_reduce_scatter(
      Reduction reduction,
      c10d::ReduceOp::RedOpType plain,
      at::ScalarType type,
      std::int64_t size,
      const std::string& title) {
    const std::int64_t whole = size * group_.size();
    const at::Tensor expected =
        plain_reduce(inputs_of_all(group_.size(), type, whole), plain)
            .narrow(0, size * group_.rank(), size);
    const at::Tensor output =
        at::zeros({size}, at::TensorOptions(device_).dtype(type));
    Pending pending =
        group_.start_reduce_scatter(output, own(type, whole), reduction);
    pending.wait();
    expect_reduced(
        reduction, output, expected, str_cat("reduce_scatter, ", title));
  }

  void check_broadcast(at::ScalarType type, std::int64_t size) {
    for (int from = 0; from < group_.size(); ++from) {
      const at::Tensor tensor = own(type, size);
      group_.broadcast({tensor}, from);
      expect_equal(
          tensor.cpu(),
          input_of(from, type, size),
          str_cat("broadcast of ", type, " x ", size, " from ", from));
    }
  }

  void check_gather(at::ScalarType type, std::int64_t size) {
    expect_equal(
        group_.gather({own(type, size)}).front().cpu(),
        at::cat(inputs_of_all(group_.size(), type, size)),
        str_cat("gather of ", type, " x ", size));
  }

  const Group group_;
  const c10::Device device_;
};

void run(const std::string& scenario) {
  InitProcessGroupKwargs kwargs;
  kwargs.backend = Backend::nccl;
  kwargs.timeout = std::chrono::seconds(60);
  const PartialState state({.init_process_group = kwargs});
  if (scenario == "group") {
    return;
  }
  Collectives(state.group(), state.device()).check();
  if (state.num_processes() > 2) {
    const auto pair = state.group().subgroup({0, 2});
    if (pair) {
      Collectives(*pair, state.device()).check();
    }
  }
  state.wait_for_everyone();
}

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  try {
    accelerate::run(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
}
