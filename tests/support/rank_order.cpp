// SPDX-License-Identifier: Apache-2.0
// Sums of numbers that round: another order gives other bits.
#include <chrono>
#include <random>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/str_cat.h"
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

// Nothing is waited for: the ranks are only to come in another order each
// time.
void dawdle(std::mt19937_64& random) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::microseconds(random() % 200);
  while (std::chrono::steady_clock::now() < until) {
  }
}

bool order_matters(const Tensors& inputs) {
  const Tensors reversed(inputs.rbegin(), inputs.rend());
  return !at::equal(
      plain_reduce(inputs, Op::SUM), plain_reduce(reversed, Op::SUM));
}

void sums_of(Group& group, at::ScalarType type, std::int64_t count) {
  const auto all = random_inputs(group.size(), type, count);
  // Few 16-bit floats add up exactly in fp32, where only the end rounds.
  const bool rounds = type == at::kFloat || type == at::kDouble;
  if (rounds && group.size() > 2 && count > 1000 && !order_matters(all)) {
    throw std::runtime_error("these numbers prove nothing");
  }
  const at::Tensor expected = plain_reduce(all, Op::SUM);
  at::Tensor ordinary = at::empty({count}, type);
  at::Tensor shared = group.allocate(count, ordinary);
  std::mt19937_64 random(group.rank());
  for (int again = 0; again < 3; ++again) {
    for (at::Tensor tensor : {ordinary, shared}) {
      tensor.copy_(all[static_cast<std::size_t>(group.rank())]);
      dawdle(random);
      Tensors one = {tensor};
      group.backend().allreduce(one)->wait();
      expect_equal(tensor, expected, str_cat("sum of ", type, "[", count, "]"));
    }
  }
}

}  // namespace

void sums_in_rank_order(Group& group) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    // In one round; staged in pieces; more than a transport's buffer.
    for (const std::int64_t count : {1'000, 50'001, 300'001}) {
      sums_of(group, type, count);
    }
  }
}

}  // namespace accelerate
