// SPDX-License-Identifier: Apache-2.0
// Collective algorithms over MPI messages, on plain memory.
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

/// The element type and the operation of a reduction.
struct Reduction {
  ReduceKind kind;
  c10::ScalarType type;
  std::size_t element_bytes;
};

// Tensors longer than this are moved or reduced in chunks of this size: ranks
// work at the same time, scratch memory stays bounded, and a chunk stays in the
// last-level cache between its copies. The size is a multiple of every element
// size.
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

/// One rank's part of a collective call. Each function returns when this rank's
/// part is done, or throws `DistributedError`.
///
/// Reductions are done by this library, not by MPI. For each element, the
/// values are combined in rank order. Results therefore do not depend on timing
/// or on the position of an element, and are the same on every rank. 16-bit
/// floats are rounded only once.
class Collectives {
 public:
  /// `owner` keeps the buffers alive; it is leaked if MPI still needs the
  /// buffers after a failure.
  Collectives(
      Group& group,
      Operation operation,
      std::function<void()> meanwhile,
      std::shared_ptr<void> owner);

  int rank() const { return group_.rank; }
  int size() const { return group_.size; }

  void barrier();
  void broadcast(Bytes data, int root);

  /// Sends `to[r]` to rank r and receives `from[r]` from rank r. Empty chunks
  /// are not sent. `total` is the approximate number of bytes to transfer, or 0
  /// if unknown; it must be the same on all ranks.
  void exchange(
      const std::vector<ConstBytes>& to,
      const std::vector<Bytes>& from,
      std::size_t total);

  void all_reduce(const Reduction& reduction, Bytes data);
  /// On the root, `output` is as long as `input` and may be the same memory. On
  /// other ranks, `output` is not used.
  void reduce(
      const Reduction& reduction, ConstBytes input, Bytes output, int root);
  /// `inputs[r]` is this rank's contribution to `output` on rank r. All inputs
  /// are as long as `output`.
  void reduce_scatter(
      const Reduction& reduction,
      const std::vector<ConstBytes>& inputs,
      Bytes output);

 private:
  void start_together(std::size_t total);
  void await(Requests& requests, std::size_t expected_bytes);
  Requests new_requests();
  /// The rank that is `distance` places after this rank in the ring of ranks.
  int rank_at(int distance) const {
    return (rank() + distance + size()) % size();
  }
  /// Sets block j of `all` to the `input` of the rank `rank_at(j)`.
  void all_gather_small(ConstBytes input, Bytes all);
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
  // Data from the other ranks before it is reduced. Requests keep `scratch_`
  // and `result_` alive.
  std::shared_ptr<std::vector<std::byte>> scratch_;
  // The data that `reduce` sends to the root.
  std::shared_ptr<std::vector<std::byte>> result_;
};

}  // namespace accelerate::mpi
