// SPDX-License-Identifier: Apache-2.0
#include "support/conformance.h"

#include <stdexcept>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/str_cat.h"
#include "comm/group_backends.h"
#include "support/plain_collectives.h"

namespace accelerate {
namespace {

using Op = c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

// Empty, one element, an odd length, and several chunks of every transport.
const std::vector<std::int64_t> kSizes = {0, 1, 1023, 400'001};

// A copy that starts one element into its storage, so it is not aligned.
at::Tensor unaligned(const at::Tensor& tensor) {
  at::Tensor storage = at::empty({tensor.numel() + 1}, tensor.options());
  at::Tensor view = storage.narrow(0, 1, tensor.numel());
  view.copy_(tensor);
  return view;
}

// Returns a copy as the input or output of an operation. Small copies are
// unaligned, so that every operation gets aligned and unaligned tensors.
at::Tensor copy_of(const at::Tensor& tensor) {
  return tensor.numel() <= 1023 ? unaligned(tensor) : tensor.clone();
}

at::Tensor zeros(std::int64_t count, at::ScalarType type) {
  return copy_of(at::zeros({count}, type));
}

// Every second element of a larger tensor.
at::Tensor strided(const at::Tensor& tensor) {
  at::Tensor storage = at::zeros({tensor.numel(), 2}, tensor.options());
  at::Tensor view = storage.select(1, 0);
  view.copy_(tensor);
  return view;
}

template <typename Body>
void for_each_reduction(Group& group, const Body& body) {
  for (const auto type : promised_types()) {
    for (const auto op : promised_operations()) {
      if (can_reduce(group, type, op)) {
        body(type, op);
      }
    }
  }
}

std::string title(
    const char* call, at::ScalarType type, Op::RedOpType op, std::int64_t n) {
  return str_cat(call, " ", name_of_operation(op), " ", type, "[", n, "]");
}

void all_reduce_of_all_types(Group& group) {
  for_each_reduction(group, [&](at::ScalarType type, Op::RedOpType op) {
    for (const std::int64_t n : kSizes) {
      const auto all = inputs_of_all(group.size(), type, n);
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      const at::Tensor& input = all[group.rank()];
      for (at::Tensor tensor : {input.clone(), unaligned(input)}) {
        Tensors tensors = {tensor};
        GroupBackends::cpu(group).allreduce(tensors, options)->wait();
        expect_equal(
            tensor, plain_reduce(all, op), title("allreduce", type, op, n));
      }
    }
  });
}

void all_reduce_in_the_callers_thread(Group& group) {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  for (const std::int64_t n : kSizes) {
    const auto all = inputs_of_all(group.size(), at::kFloat, n);
    Tensors tensors = {all[group.rank()].clone()};
    GroupBackends::cpu(group).allreduce(tensors, options)->wait();
    expect_equal(
        tensors[0], plain_reduce(all, Op::SUM), "synchronous allreduce");
  }
}

void all_reduce_of_allocated_tensors(Group& group) {
  for_each_reduction(group, [&](at::ScalarType type, Op::RedOpType op) {
    for (const std::int64_t n : kSizes) {
      const auto all = inputs_of_all(group.size(), type, n);
      at::Tensor bucket = group.allocate(n + 5, all[0]);
      at::Tensor view = bucket.narrow(0, 5, n);
      view.copy_(all[group.rank()]);
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      Tensors tensors = {view};
      GroupBackends::cpu(group).allreduce(tensors, options)->wait();
      expect_equal(view, plain_reduce(all, op), title("in place", type, op, n));
    }
  });
}

// Only rank 0's tensor is in shared memory.
void all_reduce_of_mixed_memory(Group& group) {
  const auto all = inputs_of_all(group.size(), at::kFloat, 5000);
  at::Tensor bucket = group.allocate(5000, all[0]);
  at::Tensor tensor =
      group.rank() == 0 ? bucket : at::empty({5000}, at::kFloat);
  for (int i = 0; i < 3; ++i) {
    tensor.copy_(all[group.rank()]);
    Tensors tensors = {tensor};
    GroupBackends::cpu(group).allreduce(tensors)->wait();
    expect_equal(tensor, plain_reduce(all, Op::SUM), "mixed memory");
  }
}

void all_reduce_of_strided_tensors(Group& group) {
  if (group.backend_name() == "gloo") {
    return;  // Gloo takes contiguous tensors only.
  }
  const auto all = inputs_of_all(group.size(), at::kFloat, 1001);
  Tensors tensors = {strided(all[group.rank()])};
  GroupBackends::cpu(group).allreduce(tensors)->wait();
  expect_equal(tensors[0], plain_reduce(all, Op::SUM), "strided allreduce");
}

void broadcast_from_each_root(Group& group) {
  for (const auto type : promised_types()) {
    for (int root = 0; root < group.size(); ++root) {
      for (const std::int64_t n : kSizes) {
        Tensors tensors = {copy_of(input_of(group.rank(), type, n))};
        c10d::BroadcastOptions options;
        options.rootRank = root;
        GroupBackends::cpu(group).broadcast(tensors, options)->wait();
        expect_equal(
            tensors[0],
            input_of(root, type, n),
            str_cat("broadcast ", type, "[", n, "] from ", root));
      }
    }
  }
}

void all_gather_of_all_types(Group& group) {
  for (const auto type : promised_types()) {
    for (const std::int64_t n : kSizes) {
      const auto all = inputs_of_all(group.size(), type, n);
      at::Tensor in = copy_of(all[group.rank()]);
      at::Tensor flat = zeros(n * group.size(), type);
      GroupBackends::cpu(group)._allgather_base(flat, in)->wait();
      expect_equal(flat, at::cat(all), str_cat("allgather ", type));
    }
  }
}

void reduce_scatter_of_all_types(Group& group) {
  const int size = group.size();
  for_each_reduction(group, [&](at::ScalarType type, Op::RedOpType op) {
    for (const std::int64_t n : {0, 1, 333, 120'001}) {
      const auto all = inputs_of_all(size, type, n * size);
      const at::Tensor expected =
          plain_reduce(all, op).narrow(0, n * group.rank(), n);
      c10d::ReduceScatterOptions options;
      options.reduceOp = op;
      at::Tensor out = zeros(n, type);
      at::Tensor in = copy_of(all[group.rank()]);
      GroupBackends::cpu(group)._reduce_scatter_base(out, in, options)->wait();
      expect_equal(out, expected, title("reduce_scatter", type, op, n));
    }
  });
}

void scatter_from_each_root(Group& group) {
  const int size = group.size();
  for (const auto type : promised_types()) {
    for (int root = 0; root < size; ++root) {
      for (const std::int64_t n : kSizes) {
        const auto all = inputs_of_all(size, type, n);
        std::vector<Tensors> lists;
        if (group.rank() == root) {
          lists.push_back(all);
        }
        Tensors out = {zeros(n, type)};
        c10d::ScatterOptions options;
        options.rootRank = root;
        GroupBackends::cpu(group).scatter(out, lists, options)->wait();
        expect_equal(out[0], all[group.rank()], str_cat("scatter ", type));
      }
    }
  }
}

void operations_that_overlap(Group& group) {
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  std::vector<Tensors> tensors;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back({input_of(group.rank() + i, at::kFloat, 1000 + i)});
    works.push_back(GroupBackends::cpu(group).allreduce(tensors.back()));
  }
  for (int i = 0; i < 20; ++i) {
    works[i]->wait();
    Tensors all;
    for (int r = 0; r < group.size(); ++r) {
      all.push_back(input_of(r + i, at::kFloat, 1000 + i));
    }
    expect_equal(tensors[i][0], plain_reduce(all, Op::SUM), "overlapping");
  }
}

void barriers(Group& group) {
  for (int i = 0; i < 10; ++i) {
    GroupBackends::cpu(group).barrier()->wait();
  }
}

}  // namespace

const std::vector<std::pair<std::string, Conformance>>& conformance_checks() {
  static const std::vector<std::pair<std::string, Conformance>> checks = {
      {"AllReduce", all_reduce_of_all_types},
      {"AllReduceSynchronous", all_reduce_in_the_callers_thread},
      {"AllReduceInPlace", all_reduce_of_allocated_tensors},
      {"AllReduceMixedMemory", all_reduce_of_mixed_memory},
      {"AllReduceStrided", all_reduce_of_strided_tensors},
      {"Broadcast", broadcast_from_each_root},
      {"AllGather", all_gather_of_all_types},
      {"ReduceScatter", reduce_scatter_of_all_types},
      {"Scatter", scatter_from_each_root},
      {"Overlap", operations_that_overlap},
      {"Barrier", barriers},
  };
  return checks;
}

}  // namespace accelerate
