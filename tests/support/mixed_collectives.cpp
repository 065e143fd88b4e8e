// SPDX-License-Identifier: Apache-2.0
// All kinds of collectives in a random order.
#include <array>
#include <random>
#include <stdexcept>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/str_cat.h"
#include "comm/group_backends.h"
#include "support/conformance.h"
#include "support/plain_collectives.h"

namespace accelerate {
namespace {

using Op = c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

// The random parameters of one step, the same on every rank.
struct Step {
  std::int64_t count = 0;
  int root = 0;
  at::ScalarType type = at::kFloat;
  Tensors all = {};

  Tensors zeros(std::size_t ranks) const {
    Tensors result(ranks);
    for (at::Tensor& tensor : result) {
      tensor = at::zeros({count}, type);
    }
    return result;
  }
};

at::Tensor own_input(const Group& group, const Step& step) {
  return step.all[static_cast<std::size_t>(group.rank())].clone();
}

void reduce(Group& group, const Step& step) {
  expect_equal(
      group.reduce({own_input(group, step)})[0],
      plain_reduce(step.all, Op::SUM),
      "reduce");
}

// Returns the rows of a rank. Each rank has a different number of rows.
at::Tensor some_rows(const Step& step, int rank) {
  return step.all[static_cast<std::size_t>(rank)].narrow(
      0, 0, step.count / (rank + 1));
}

void gather(Group& group, const Step& step) {
  Tensors expected;
  for (int rank = 0; rank < group.size(); ++rank) {
    expected.push_back(some_rows(step, rank));
  }
  expect_equal(
      group.gather({some_rows(step, group.rank())})[0],
      at::cat(expected),
      "gather");
}

void broadcast(Group& group, const Step& step) {
  const at::Tensor tensor = own_input(group, step);
  group.broadcast({tensor}, step.root);
  expect_equal(tensor, step.all[step.root], "broadcast");
}

void all_reduce(Group& group, const Step& step) {
  Tensors tensors = {own_input(group, step)};
  GroupBackends::cpu(group).allreduce(tensors)->wait();
  expect_equal(tensors[0], plain_reduce(step.all, Op::SUM), "allreduce");
}

void barrier(Group& group, const Step& /*step*/) {
  group.barrier();
}

void scatter(Group& group, const Step& step) {
  std::vector<Tensors> from;
  if (group.rank() == step.root) {
    from.push_back(step.all);
  }
  Tensors to = step.zeros(1);
  c10d::ScatterOptions options;
  options.rootRank = step.root;
  GroupBackends::cpu(group).scatter(to, from, options)->wait();
  expect_equal(to[0], own_input(group, step), "scatter");
}

void reduce_scatter(Group& group, const Step& step) {
  const int size = group.size();
  const auto inputs = inputs_of_all(size, step.type, step.count * size);
  at::Tensor in = inputs[static_cast<std::size_t>(group.rank())].clone();
  at::Tensor out = step.zeros(1)[0];
  GroupBackends::cpu(group)._reduce_scatter_base(out, in)->wait();
  expect_equal(
      out,
      plain_reduce(inputs, Op::SUM)
          .narrow(0, step.count * group.rank(), step.count),
      "reduce_scatter");
}

void objects(Group& group, const Step& step) {
  const auto object_of = [&](int rank) {
    return Json(str_cat(rank, ":", std::string(step.count, 'x')));
  };
  std::vector<Json> expected;
  for (int rank = 0; rank < group.size(); ++rank) {
    expected.push_back(object_of(rank));
  }
  std::vector<Json> list = {object_of(group.rank())};
  if (group.gather_object(list) != expected) {
    throw std::runtime_error("gather_object: wrong objects");
  }
  group.broadcast_object_list(list, step.root);
  if (list[0] != object_of(step.root)) {
    throw std::runtime_error("broadcast_object_list: wrong objects");
  }
}

void pad(Group& group, const Step& step) {
  const at::Tensor rows = some_rows(step, group.rank());
  at::Tensor expected = at::zeros({step.count}, step.type);
  expected.narrow(0, 0, rows.size(0)).copy_(rows);
  expect_equal(group.pad_across_processes({rows})[0], expected, "pad");
}

constexpr std::array kCollectives = {
    reduce,
    gather,
    broadcast,
    all_reduce,
    barrier,
    scatter,
    reduce_scatter,
    objects,
    pad};

// Returns a length that is mostly short, and sometimes several chunks of every
// transport.
std::int64_t draw_count(std::mt19937_64& random) {
  const auto kind = random() % 100;
  const std::uint64_t limit = kind == 0 ? 100'000 : kind < 10 ? 5'000 : 300;
  return static_cast<std::int64_t>(random() % limit);
}

}  // namespace

void mixed_collectives(Group& group, int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);  // The same numbers on every rank.
  for (int i = 0; i < count; ++i) {
    Step step;
    step.count = draw_count(random);
    step.root = static_cast<int>(random() % group.size());
    const auto& types = promised_types();
    const auto type = types[random() % types.size()];
    step.type = can_reduce(group, type, Op::SUM) ? type : at::kFloat;
    step.all = inputs_of_all(group.size(), step.type, step.count);
    kCollectives[random() % kCollectives.size()](group, step);
  }
}

}  // namespace accelerate
