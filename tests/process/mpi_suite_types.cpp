// SPDX-License-Identifier: Apache-2.0
// Each operation with each type and awkward sizes.
#include "mpi_suite.h"

namespace accelerate {
namespace {

// Empty, one, odd, beyond the small algorithm, several segments of fp64.
const std::vector<std::int64_t> kSizes = {0, 1, 7, 1021, 70001, 700001};

// Long tensors test segments, which do not depend on the operation.
bool can_skip(ReduceOp::RedOpType op, std::int64_t count) {
  return count == kSizes.back() && op != ReduceOp::SUM;
}

/// A tensor of `count` elements whose memory is not aligned.
at::Tensor unaligned(const at::Tensor& tensor) {
  auto longer = at::empty({tensor.numel() + 1}, tensor.options());
  return longer.slice(0, 1).copy_(tensor);
}

class MpiTypes : public testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor input(int r, std::int64_t count, int salt = 0) const {
    return input_of(r, {count}, GetParam(), salt);
  }
};

INSTANTIATE_TEST_SUITE_P(
    All, MpiTypes, testing::ValuesIn(all_types()), [](const auto& each) {
      return std::string(toString(each.param));
    });

TEST_P(MpiTypes, AllReduceMatchesALoopOverRanks) {
  for (const auto count : kSizes) {
    for (const auto op : all_ops()) {
      if (!is_supported(op, GetParam()) || can_skip(op, count)) {
        continue;
      }
      SCOPED_TRACE(testing::Message() << count << " elements, op " << +op);
      const bool async = (count + op) % 2 == 0;
      TensorList tensors = {unaligned(input(rank(), count))};
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      options.asyncOp = async;

      world->allreduce(tensors, options)->wait();

      expect_equal(tensors[0], reduced(op, size(), [&](int r) {
                     return input(r, count);
                   }));
    }
  }
}

TEST_P(MpiTypes, ReduceWritesOnlyOnTheRoot) {
  for (const auto count : kSizes) {
    for (int root = 0; root < size(); ++root) {
      SCOPED_TRACE(testing::Message() << count << " to " << root);
      TensorList tensors = {input(rank(), count)};
      c10d::ReduceOptions options;
      options.rootRank = root;

      world->reduce(tensors, options)->wait();

      const auto each = [&](int r) { return input(r, count); };
      expect_equal(
          tensors[0],
          rank() == root ? reduced(ReduceOp::SUM, size(), each) : each(rank()));
    }
  }
}

TEST_P(MpiTypes, BroadcastSendsTheValuesOfTheRoot) {
  for (const auto count : kSizes) {
    for (int root = 0; root < size(); ++root) {
      TensorList tensors = {unaligned(input(rank(), count))};
      c10d::BroadcastOptions options;
      options.rootRank = root;

      world->broadcast(tensors, options)->wait();

      expect_equal(tensors[0], input(root, count));
    }
  }
}

TEST_P(MpiTypes, AllGatherPutsRanksInOrder) {
  for (const auto count : kSizes) {
    TensorList inputs = {input(rank(), count)};
    std::vector<TensorList> outputs(1);
    for (int r = 0; r < size(); ++r) {
      outputs[0].push_back(at::empty({count}, GetParam()));
    }

    world->allgather(outputs, inputs, {})->wait();

    for (int r = 0; r < size(); ++r) {
      expect_equal(outputs[0][r], input(r, count));
    }
  }
}

TEST_P(MpiTypes, AllGatherBaseFillsOneTensor) {
  for (const auto count : kSizes) {
    auto own_input = input(rank(), count);
    auto all = at::empty({size(), count}, GetParam());

    world->_allgather_base(all, own_input, {})->wait();

    for (int r = 0; r < size(); ++r) {
      expect_equal(all[r], input(r, count));
    }
  }
}

TEST_P(MpiTypes, GatherCollectsOnTheRoot) {
  for (const auto count : kSizes) {
    const int root = static_cast<int>(count % size());
    TensorList inputs = {input(rank(), count)};
    std::vector<TensorList> outputs(rank() == root ? 1 : 0);
    for (int r = 0; r < size() && rank() == root; ++r) {
      outputs[0].push_back(at::empty({count}, GetParam()));
    }
    c10d::GatherOptions options;
    options.rootRank = root;

    world->gather(outputs, inputs, options)->wait();

    for (int r = 0; r < size() && rank() == root; ++r) {
      expect_equal(outputs[0][r], input(r, count));
    }
  }
}

TEST_P(MpiTypes, ScatterGivesEachRankItsPart) {
  for (const auto count : kSizes) {
    const int root = static_cast<int>(count % size());
    TensorList outputs = {at::empty({count}, GetParam())};
    std::vector<TensorList> inputs(rank() == root ? 1 : 0);
    for (int r = 0; r < size() && rank() == root; ++r) {
      inputs[0].push_back(input(root, count, r));
    }
    c10d::ScatterOptions options;
    options.rootRank = root;

    world->scatter(outputs, inputs, options)->wait();

    expect_equal(outputs[0], input(root, count, rank()));
  }
}

TEST_P(MpiTypes, ReduceScatterMatchesALoopOverRanks) {
  for (const auto count : kSizes) {
    for (const auto op : all_ops()) {
      if (!is_supported(op, GetParam()) || can_skip(op, count)) {
        continue;
      }
      SCOPED_TRACE(testing::Message() << count << " elements, op " << +op);
      auto own_input = at::empty({size(), count}, GetParam());
      std::vector<TensorList> list(1);
      for (int r = 0; r < size(); ++r) {
        list[0].push_back(input(rank(), count, r));
        own_input[r].copy_(list[0].back());
      }
      auto from_tensor = at::empty({count}, GetParam());
      TensorList from_list = {at::empty({count}, GetParam())};
      c10d::ReduceScatterOptions options;
      options.reduceOp = op;

      world->_reduce_scatter_base(from_tensor, own_input, options)->wait();
      world->reduce_scatter(from_list, list, options)->wait();

      const auto expected_parts =
          reduced(op, size(), [&](int r) { return input(r, count, rank()); });
      expect_equal(from_tensor, expected_parts);
      expect_equal(from_list[0], expected_parts);
    }
  }
}

TEST_P(MpiTypes, AllToAllTransposes) {
  for (const auto count : kSizes) {
    TensorList inputs;
    TensorList outputs;
    for (int r = 0; r < size(); ++r) {
      inputs.push_back(input(rank(), count + r, r));
      outputs.push_back(at::empty({count + rank()}, GetParam()));
    }

    world->alltoall(outputs, inputs, {})->wait();

    for (int r = 0; r < size(); ++r) {
      expect_equal(outputs[r], input(r, count + rank(), rank()));
    }
  }
}

TEST_P(MpiTypes, AllToAllBaseAcceptsUnequalSplits) {
  // Rank a sends (a + 2 b) % 4 rows of 5 to rank b: some send nothing.
  const auto rows = [](int from, int to) -> std::int64_t {
    return (from + 2 * to) % 4;
  };
  std::vector<std::int64_t> in;
  std::vector<std::int64_t> out;
  TensorList sent;
  TensorList expected_parts;
  for (int r = 0; r < size(); ++r) {
    in.push_back(rows(rank(), r));
    out.push_back(rows(r, rank()));
    sent.push_back(input_of(rank(), {in.back(), 5}, GetParam(), r));
    expected_parts.push_back(input_of(r, {out.back(), 5}, GetParam(), rank()));
  }
  auto from = at::cat(sent);
  const auto expected = at::cat(expected_parts);
  auto to = at::empty_like(expected);

  world->alltoall_base(to, from, out, in, {})->wait();

  expect_equal(to, expected);
}

TEST_P(MpiTypes, SendAndRecvInBothDirectionsAtOnce) {
  const int next = (rank() + 1) % size();
  const int previous = (rank() + size() - 1) % size();
  for (const auto count : kSizes) {
    TensorList out = {input(rank(), count)};
    TensorList in = {at::empty({count}, GetParam())};

    // All ranks send before any receives.
    auto sending = world->send(out, next, 5);
    auto receiving = world->recv(in, previous, 5);
    receiving->wait();
    sending->wait();

    expect_equal(in[0], input(previous, count));
    EXPECT_EQ(receiving->sourceRank(), previous);
  }
}

}  // namespace
}  // namespace accelerate
