// SPDX-License-Identifier: Apache-2.0
// Collectives of every kind in an order drawn from a seed.
#include <array>
#include <random>
#include <stdexcept>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/str_cat.h"
#include "support/conformance.h"
#include "support/plain_collectives.h"

namespace accelerate {
namespace {

using Op = c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

// What one step works on: the same on every rank.
struct Draw {
  std::int64_t count = 0;
  int root = 0;
  at::ScalarType type = at::kFloat;
  Tensors all = {};

  Tensors blanks(std::size_t ranks) const {
    Tensors result(ranks);
    for (at::Tensor& tensor : result) {
      tensor = at::zeros({count}, type);
    }
    return result;
  }
};

at::Tensor mine(const Group& group, const Draw& draw) {
  return draw.all[static_cast<std::size_t>(group.rank())].clone();
}

void reduce(Group& group, const Draw& draw) {
  expect_equal(
      group.reduce({mine(group, draw)})[0],
      plain_reduce(draw.all, Op::SUM),
      "reduce");
}

// The rows that rank r brings where they may differ.
at::Tensor some_rows(const Draw& draw, int rank) {
  return draw.all[static_cast<std::size_t>(rank)].narrow(
      0, 0, draw.count / (rank + 1));
}

void gather(Group& group, const Draw& draw) {
  Tensors expected;
  for (int rank = 0; rank < group.size(); ++rank) {
    expected.push_back(some_rows(draw, rank));
  }
  expect_equal(
      group.gather({some_rows(draw, group.rank())})[0],
      at::cat(expected),
      "gather");
}

void broadcast(Group& group, const Draw& draw) {
  const at::Tensor tensor = mine(group, draw);
  group.broadcast({tensor}, draw.root);
  expect_equal(tensor, draw.all[draw.root], "broadcast");
}

void all_reduce(Group& group, const Draw& draw) {
  Tensors one = {mine(group, draw)};
  group.backend().allreduce(one)->wait();
  expect_equal(one[0], plain_reduce(draw.all, Op::SUM), "allreduce");
}

void barrier(Group& group, const Draw& /*draw*/) {
  group.barrier();
}

void scatter(Group& group, const Draw& draw) {
  std::vector<Tensors> from;
  if (group.rank() == draw.root) {
    from.push_back(draw.all);
  }
  Tensors to = draw.blanks(1);
  c10d::ScatterOptions options;
  options.rootRank = draw.root;
  group.backend().scatter(to, from, options)->wait();
  expect_equal(to[0], mine(group, draw), "scatter");
}

void gather_to_root(Group& group, const Draw& draw) {
  std::vector<Tensors> to;
  if (group.rank() == draw.root) {
    to.push_back(draw.blanks(draw.all.size()));
  }
  Tensors from = {mine(group, draw)};
  c10d::GatherOptions options;
  options.rootRank = draw.root;
  group.backend().gather(to, from, options)->wait();
  if (!to.empty()) {
    expect_equal(at::cat(to[0]), at::cat(draw.all), "gather to a root");
  }
}

void reduce_scatter(Group& group, const Draw& draw) {
  const int size = group.size();
  const auto whole = inputs_of_all(size, draw.type, draw.count * size);
  at::Tensor in = whole[static_cast<std::size_t>(group.rank())].clone();
  at::Tensor out = draw.blanks(1)[0];
  group.backend()._reduce_scatter_base(out, in)->wait();
  expect_equal(
      out,
      plain_reduce(whole, Op::SUM)
          .narrow(0, draw.count * group.rank(), draw.count),
      "reduce_scatter");
}

void all_to_all(Group& group, const Draw& draw) {
  const int size = group.size();
  at::Tensor in =
      mine(group, draw).repeat({size});  // The same part for every rank.
  at::Tensor out = at::zeros_like(in);
  std::vector<std::int64_t> equal;
  group.backend().alltoall_base(out, in, equal, equal)->wait();
  expect_equal(out, at::cat(draw.all), "alltoall");
}

void pass_on(Group& group, const Draw& draw) {
  const int size = group.size();
  const int from = (group.rank() + size - 1) % size;
  Tensors sent = {mine(group, draw)};
  Tensors received = draw.blanks(1);
  auto work = group.backend().send(sent, (group.rank() + 1) % size, 5);
  group.backend().recv(received, from, 5)->wait();
  work->wait();
  expect_equal(received[0], draw.all[from], "recv");
}

void objects(Group& group, const Draw& draw) {
  const auto named = [&](int rank) {
    return Json(str_cat(rank, ":", std::string(draw.count, 'x')));
  };
  std::vector<Json> expected;
  for (int rank = 0; rank < group.size(); ++rank) {
    expected.push_back(named(rank));
  }
  std::vector<Json> one = {named(group.rank())};
  if (group.gather_object(one) != expected) {
    throw std::runtime_error("gather_object: other objects");
  }
  group.broadcast_object_list(one, draw.root);
  if (one[0] != named(draw.root)) {
    throw std::runtime_error("broadcast_object_list: other objects");
  }
}

void pad(Group& group, const Draw& draw) {
  const at::Tensor rows = some_rows(draw, group.rank());
  at::Tensor expected = at::zeros({draw.count}, draw.type);
  expected.narrow(0, 0, rows.size(0)).copy_(rows);
  expect_equal(group.pad_across_processes({rows})[0], expected, "pad");
}

constexpr std::array kSteps = {
    reduce,
    gather,
    broadcast,
    all_reduce,
    barrier,
    scatter,
    gather_to_root,
    reduce_scatter,
    all_to_all,
    pass_on,
    objects,
    pad};

// Mostly short, at times several pieces of every transport.
std::int64_t draw_count(std::mt19937_64& random) {
  const auto kind = random() % 100;
  const std::uint64_t most = kind == 0 ? 100'000 : kind < 10 ? 5'000 : 300;
  return static_cast<std::int64_t>(random() % most);
}

}  // namespace

void mixed_collectives(Group& group, int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);  // The same numbers on every rank.
  for (int i = 0; i < count; ++i) {
    Draw draw;
    draw.count = draw_count(random);
    draw.root = static_cast<int>(random() % group.size());
    const auto& types = promised_types();
    const auto type = types[random() % types.size()];
    draw.type = can_reduce(group, type, Op::SUM) ? type : at::kFloat;
    draw.all = inputs_of_all(group.size(), draw.type, draw.count);
    kSteps[random() % kSteps.size()](group, draw);
  }
}

}  // namespace accelerate
