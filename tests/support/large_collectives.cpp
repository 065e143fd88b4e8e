// SPDX-License-Identifier: Apache-2.0
// Every operation with 64 MiB.
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/str_cat.h"
#include "comm/group_backends.h"
#include "support/conformance.h"
#include "support/plain_collectives.h"

namespace accelerate {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kBytes = 64 << 20;

std::int64_t count_of(at::ScalarType type) {
  return kBytes / static_cast<std::int64_t>(c10::elementSize(type));
}

// Every element shows the rank it comes from.
at::Tensor tensor_of_rank(
    int rank, std::int64_t count, at::ScalarType type = at::kFloat) {
  return at::full({count}, rank + 1, type);
}

void all_reduce(Group& group, at::ScalarType type) {
  const std::int64_t n = count_of(type);
  const int sum = group.size() * (group.size() + 1) / 2;
  at::Tensor ordinary = at::empty({n}, type);
  at::Tensor shared = group.allocate(n, ordinary);
  for (at::Tensor tensor : {ordinary, shared}) {
    tensor.fill_(group.rank() + 1);
    Tensors tensors = {tensor};
    GroupBackends::cpu(group).allreduce(tensors)->wait();
    expect_equal(tensor, at::full({n}, sum, type), str_cat("64 MiB ", type));
  }
}

void broadcast(Group& group) {
  const int root = group.size() - 1;
  Tensors tensors = {tensor_of_rank(group.rank(), count_of(at::kFloat))};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  GroupBackends::cpu(group).broadcast(tensors, options)->wait();
  expect_equal(
      tensors[0], tensor_of_rank(root, tensors[0].numel()), "64 MiB broadcast");
}

// The tensors of all ranks concatenated, 64 MiB in total.
at::Tensor tensors_of_all(int size, std::int64_t share) {
  Tensors parts;
  for (int rank = 0; rank < size; ++rank) {
    parts.push_back(tensor_of_rank(rank, share));
  }
  return at::cat(parts);
}

void all_gather(Group& group) {
  const std::int64_t share = count_of(at::kFloat) / group.size();
  at::Tensor in = tensor_of_rank(group.rank(), share);
  at::Tensor out = at::zeros({share * group.size()});
  GroupBackends::cpu(group)._allgather_base(out, in)->wait();
  expect_equal(out, tensors_of_all(group.size(), share), "64 MiB allgather");
}

void reduce_scatter(Group& group) {
  const int size = group.size();
  const std::int64_t share = count_of(at::kFloat) / size;
  at::Tensor in = tensor_of_rank(group.rank(), share * size);
  at::Tensor out = at::zeros({share});
  GroupBackends::cpu(group)._reduce_scatter_base(out, in)->wait();
  expect_equal(
      out,
      at::full({share}, size * (size + 1) / 2, at::kFloat),
      "64 MiB reduce_scatter");
}

void scatter(Group& group) {
  const std::int64_t share = count_of(at::kFloat) / group.size();
  std::vector<Tensors> lists;
  if (group.rank() == 0) {
    lists.emplace_back();
    for (int rank = 0; rank < group.size(); ++rank) {
      lists[0].push_back(tensor_of_rank(rank, share));
    }
  }
  Tensors out = {at::zeros({share})};
  GroupBackends::cpu(group).scatter(out, lists)->wait();
  expect_equal(out[0], tensor_of_rank(group.rank(), share), "64 MiB scatter");
}

}  // namespace

void large_all_reduce(Group& group) {
  all_reduce(group, at::kFloat);
}

void large_collectives(Group& group) {
  all_reduce(group, at::kFloat);
  all_reduce(group, at::kBFloat16);
  broadcast(group);
  all_gather(group);
  reduce_scatter(group);
  scatter(group);
}

}  // namespace accelerate
