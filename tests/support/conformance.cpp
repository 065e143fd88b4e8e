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

// Empty, one, odd, several chunks of every transport.
const std::vector<std::int64_t> kSizes = {0, 1, 1023, 400'001};

// A copy that starts one element into its storage, so it is not aligned.
at::Tensor unaligned(const at::Tensor& tensor) {
  at::Tensor storage = at::empty({tensor.numel() + 1}, tensor.options());
  at::Tensor view = storage.narrow(0, 1, tensor.numel());
  view.copy_(tensor);
  return view;
}

// The input or output of an operation; small ones are unaligned, so that every
// operation gets both kinds.
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

void reduce_to_each_root(Group& group) {
  for_each_reduction(group, [&](at::ScalarType type, Op::RedOpType op) {
    for (int root = 0; root < group.size(); ++root) {
      const auto all = inputs_of_all(group.size(), type, 1023);
      Tensors tensors = {copy_of(all[group.rank()])};
      c10d::ReduceOptions options;
      options.reduceOp = op;
      options.rootRank = root;
      GroupBackends::cpu(group).reduce(tensors, options)->wait();
      if (group.rank() == root) {
        expect_equal(
            tensors[0], plain_reduce(all, op), title("reduce", type, op, 1023));
      }
    }
  });
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

void all_gather_lists_and_bases(Group& group) {
  for (const auto type : promised_types()) {
    for (const std::int64_t n : kSizes) {
      const auto all = inputs_of_all(group.size(), type, n);
      Tensors in = {copy_of(all[group.rank()])};
      std::vector<Tensors> outs(1);
      for (int r = 0; r < group.size(); ++r) {
        outs[0].push_back(zeros(n, type));
      }
      GroupBackends::cpu(group).allgather(outs, in)->wait();
      for (int r = 0; r < group.size(); ++r) {
        expect_equal(outs[0][r], all[r], str_cat("allgather ", type, "[", n));
      }
      at::Tensor flat = zeros(n * group.size(), type);
      GroupBackends::cpu(group)._allgather_base(flat, in[0])->wait();
      expect_equal(flat, at::cat(all), str_cat("allgather base ", type));
    }
  }
}

void reduce_scatter_lists_and_bases(Group& group) {
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
      expect_equal(out, expected, title("reduce_scatter base", type, op, n));
      if (group.backend_name() != "gloo") {
        Tensors outs = {zeros(n, type)};
        std::vector<Tensors> ins(1);
        for (int r = 0; r < size; ++r) {
          ins[0].push_back(in.narrow(0, n * r, n));
        }
        GroupBackends::cpu(group).reduce_scatter(outs, ins, options)->wait();
        expect_equal(outs[0], expected, title("reduce_scatter", type, op, n));
      }
    }
  });
}

void gather_and_scatter(Group& group) {
  const int size = group.size();
  for (const auto type : promised_types()) {
    for (int root = 0; root < size; ++root) {
      for (const std::int64_t n : kSizes) {
        const auto all = inputs_of_all(size, type, n);
        const bool is_root = group.rank() == root;
        std::vector<Tensors> lists;
        if (is_root) {
          lists.emplace_back();
          for (int r = 0; r < size; ++r) {
            lists[0].push_back(zeros(n, type));
          }
        }
        Tensors in = {copy_of(all[group.rank()])};
        c10d::GatherOptions gather;
        gather.rootRank = root;
        GroupBackends::cpu(group).gather(lists, in, gather)->wait();
        for (int r = 0; is_root && r < size; ++r) {
          expect_equal(lists[0][r], all[r], str_cat("gather ", type));
        }
        Tensors out = {zeros(n, type)};
        c10d::ScatterOptions scatter;
        scatter.rootRank = root;
        GroupBackends::cpu(group).scatter(out, lists, scatter)->wait();
        expect_equal(out[0], all[group.rank()], str_cat("scatter ", type));
      }
    }
  }
}

// Rank r sends rows_between(r, s) rows to rank s.
std::int64_t rows_between(int from, int to) {
  return 3 * from + to;
}

void all_to_all_with_uneven_rows(Group& group) {
  const int size = group.size();
  const int own_rank = group.rank();
  for (const auto type : promised_types()) {
    for (const std::int64_t width : {1, 5000}) {
      std::vector<std::int64_t> to_rows;
      std::vector<std::int64_t> from_rows;
      Tensors to;
      Tensors from;
      Tensors expected;
      for (int r = 0; r < size; ++r) {
        to_rows.push_back(rows_between(own_rank, r));
        from_rows.push_back(rows_between(r, own_rank));
        to.push_back(input_of(own_rank * size + r, type, to_rows[r] * width)
                         .view({to_rows[r], width}));
        expected.push_back(
            input_of(r * size + own_rank, type, from_rows[r] * width)
                .view({from_rows[r], width}));
        from.push_back(
            zeros(from_rows[r] * width, type).view({from_rows[r], width}));
      }
      at::Tensor input = copy_of(at::cat(to).view({-1})).view({-1, width});
      at::Tensor output = zeros(at::cat(expected).numel(), type);
      output = output.view({-1, width});
      GroupBackends::cpu(group)
          .alltoall_base(output, input, from_rows, to_rows)
          ->wait();
      expect_equal(output, at::cat(expected), "alltoall_base");
      if (group.backend_name() != "gloo") {
        GroupBackends::cpu(group).alltoall(from, to)->wait();
        expect_equal(at::cat(from), at::cat(expected), "alltoall");
      }
    }
  }
}

// All ranks send to all ranks before any receives, with two tags whose messages
// are received in the opposite order.
void messages_of(Group& group, at::ScalarType type, std::int64_t n) {
  const int size = group.size();
  const int own_rank = group.rank();
  const auto message = [&](int from, int to, int tag) {
    return input_of(from * 7 + to * 3 + tag, type, n);
  };
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  Tensors sent;
  for (int tag : {1, 2}) {
    for (int to = 0; to < size; ++to) {
      if (to != own_rank) {
        Tensors tensors = {copy_of(message(own_rank, to, tag))};
        works.push_back(GroupBackends::cpu(group).send(tensors, to, tag));
        sent.push_back(tensors[0]);
      }
    }
  }
  for (int tag : {2, 1}) {
    for (int from = 0; from < size; ++from) {
      if (from != own_rank) {
        Tensors tensors = {zeros(n, type)};
        GroupBackends::cpu(group).recv(tensors, from, tag)->wait();
        expect_equal(
            tensors[0],
            message(from, own_rank, tag),
            str_cat("recv ", type, "[", n, "] from ", from));
      }
    }
  }
  for (const auto& work : works) {
    work->wait();
  }
  group.barrier();
}

void messages_between_all_pairs(Group& group) {
  for (const auto type : promised_types()) {
    messages_of(group, type, 0);
    messages_of(group, type, 1023);
  }
  messages_of(group, at::kFloat, 1);
  messages_of(group, at::kFloat, 70'001);
}

void messages_from_any_source(Group& group) {
  if (group.rank() != 0) {
    Tensors tensors = {at::full({3}, group.rank(), at::kLong)};
    GroupBackends::cpu(group).send(tensors, 0, 9)->wait();
  } else {
    std::int64_t sum = 0;
    for (int r = 1; r < group.size(); ++r) {
      Tensors tensors = {at::zeros({3}, at::kLong)};
      auto work = GroupBackends::cpu(group).recvAnysource(tensors, 9);
      work->wait();
      expect_equal(
          tensors[0], at::full({3}, work->sourceRank(), at::kLong), "source");
      sum += work->sourceRank();
    }
    if (sum != group.size() * (group.size() - 1) / 2) {
      throw std::runtime_error("recvAnysource: received from a rank twice");
    }
  }
  group.barrier();
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
      {"Reduce", reduce_to_each_root},
      {"Broadcast", broadcast_from_each_root},
      {"AllGather", all_gather_lists_and_bases},
      {"ReduceScatter", reduce_scatter_lists_and_bases},
      {"GatherScatter", gather_and_scatter},
      {"AllToAll", all_to_all_with_uneven_rows},
      {"SendRecv", messages_between_all_pairs},
      {"RecvAnySource", messages_from_any_source},
      {"Overlap", operations_that_overlap},
      {"Barrier", barriers},
  };
  return checks;
}

}  // namespace accelerate
