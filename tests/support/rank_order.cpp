// SPDX-License-Identifier: Apache-2.0
// Tests sums whose rounding depends on the order of the ranks.
#include <chrono>
#include <random>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/str_cat.h"
#include "comm/group_backends.h"
#include "support/conformance.h"
#include "support/plain_collectives.h"

namespace accelerate {
namespace {

using Op = c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

Tensors random_inputs(int size, at::ScalarType type, std::int64_t count) {
  Tensors inputs;
  for (int rank = 0; rank < size; ++rank) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(77 + rank);
    inputs.push_back(at::randn({count}, generator, at::kDouble).to(type));
  }
  return inputs;
}

// Changes the order in which the ranks reach the next call.
void random_delay(std::mt19937_64& random) {
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::microseconds(random() % 200);
  while (std::chrono::steady_clock::now() < deadline) {
  }
}

bool order_matters(const Tensors& inputs) {
  const Tensors reversed(inputs.rbegin(), inputs.rend());
  return !at::equal(
      plain_reduce(inputs, Op::SUM), plain_reduce(reversed, Op::SUM));
}

void sums_of(Group& group, at::ScalarType type, std::int64_t count) {
  const auto all = random_inputs(group.size(), type, count);
  // A few 16-bit floats are summed exactly in fp32 and rounded once.
  const bool rounds = type == at::kFloat || type == at::kDouble;
  if (rounds && group.size() > 2 && count > 1000 && !order_matters(all)) {
    throw std::runtime_error(
        "the sum of these numbers does not depend on the order");
  }
  const at::Tensor expected = plain_reduce(all, Op::SUM);
  at::Tensor ordinary = at::empty({count}, type);
  at::Tensor shared = group.allocate(count, ordinary);
  std::mt19937_64 random(group.rank());
  for (int i = 0; i < 3; ++i) {
    for (at::Tensor tensor : {ordinary, shared}) {
      tensor.copy_(all[static_cast<std::size_t>(group.rank())]);
      random_delay(random);
      Tensors tensors = {tensor};
      GroupBackends::cpu(group).allreduce(tensors)->wait();
      expect_equal(tensor, expected, str_cat("sum of ", type, "[", count, "]"));
    }
  }
}

}  // namespace

void sums_in_rank_order(Group& group) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    // One round, several chunks, and more than the buffer of a transport.
    for (const std::int64_t count : {1'000, 50'001, 300'001}) {
      sums_of(group, type, count);
    }
  }
}

}  // namespace accelerate
