// SPDX-License-Identifier: Apache-2.0
// The algorithms, on plain memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <c10/core/ScalarType.h>

#include "comm/backends/mpi/group.h"
#include "comm/backends/mpi/requests.h"
#include "comm/reduce_kernels.h"

namespace accelerate::mpi {

/// What is to be reduced: elements of one type, by one rule.
struct Reduction {
  ReduceKind kind;
  c10::ScalarType type;
  std::size_t element_bytes;
};

// Longer tensors are moved or reduced piece by piece: ranks work at the same
// time, scratch memory stays bounded, and a piece stays in the last-level
// cache between its copies. A multiple of every element size.
inline constexpr std::size_t kSegmentBytes = 4 << 20;

template <typename Span>
std::vector<Span> segments_of(Span data) {
  std::vector<Span> segments;
  for (std::size_t begin = 0; begin < data.size(); begin += kSegmentBytes) {
    segments.push_back(
        data.subspan(begin, std::min(kSegmentBytes, data.size() - begin)));
  }
  return segments;
}

/// One collective call of one rank: each function returns when this rank's
/// part is done, or throws `DistributedError`.
///
/// Reductions are done by us, not by MPI: each element is reduced by one rank,
/// from rank 0 to the last, and the result is handed to the others. So results
/// do not depend on timing, on the number of bytes before an element, or on
/// which rank looks at them, and 16-bit floats are rounded once.
class Collectives {
 public:
  /// `owner` keeps the buffers alive; it is leaked if MPI still needs them
  /// after a failure.
  Collectives(
      Group& group,
      Operation operation,
      std::function<void()> meanwhile,
      std::shared_ptr<void> owner);

  int rank() const { return group_.rank; }
  int size() const { return group_.size; }

  void barrier();
  void broadcast(Bytes data, int root);

  /// Sends `to[r]` to rank r and receives `from[r]` from it. An empty piece is
  /// not sent; both sides know. `total` says how much data moves, alike on all
  /// ranks; 0 if they cannot know.
  void exchange(
      const std::vector<ConstBytes>& to,
      const std::vector<Bytes>& from,
      std::size_t total);

  void all_reduce(const Reduction& reduction, Bytes data);
  /// `output` is as long as `input` on the root, may be the same memory, and
  /// is not touched elsewhere.
  void reduce(
      const Reduction& reduction, ConstBytes input, Bytes output, int root);
  /// `inputs[r]` is this rank's part of what rank r gets; all are as long as
  /// `output`.
  void reduce_scatter(
      const Reduction& reduction,
      const std::vector<ConstBytes>& inputs,
      Bytes output);

 private:
  void start_together(std::size_t total);
  void await(Requests& requests, std::size_t expected_bytes);
  Requests new_requests();
  /// The rank that is `distance` away in the circle of ranks.
  int rank_at(int distance) const {
    return (rank() + distance + size()) % size();
  }
  /// Block j of `all` is what the rank at distance j has as `mine`.
  void all_gather_small(ConstBytes mine, Bytes all);
  void all_reduce_small(const Reduction& reduction, Bytes data);
  void reduce_part(
      const Reduction& reduction, ConstBytes segment, Bytes output);
  template <typename Span>
  std::vector<Span> split(const Reduction& reduction, Span segment) const;
  void reduce_rows_into(
      const Reduction& reduction,
      const std::vector<ConstBytes>& rows,
      Bytes output);

  Group& group_;
  const Operation operation_;
  const std::function<void()> meanwhile_;
  const std::shared_ptr<void> owner_;
  // What the other ranks send, before it is reduced, and what `reduce` sends
  // to the root. Shared with requests.
  std::shared_ptr<std::vector<std::byte>> scratch_;
  std::shared_ptr<std::vector<std::byte>> result_;
};

}  // namespace accelerate::mpi
