// SPDX-License-Identifier: Apache-2.0
// Pending MPI requests and the memory they use.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/runtime.h"

namespace accelerate::mpi {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// Several MPI requests that are polled together, until all requests are done.
///
/// Messages may have any length: a message whose length does not fit in an
/// `int` is sent as one element of a derived type.
///
/// NOTE [Probe first]: a receive is handed to MPI only after its message has
/// arrived and the length of the message was checked. Open MPI 4.1 writes past
/// the end of a buffer that is too short for a long message, so ranks that
/// disagree on the length would corrupt memory. MPI's own collectives are not
/// used for the same reason: MPI would match a collective on one rank with any
/// collective on another rank, even one with a different length.
///
/// After a timeout MPI still holds pointers into the buffers, so everything
/// passed to `keep` is leaked rather than freed.
///
/// Thread safety: use from only one thread at a time.
class Requests {
 public:
  explicit Requests(Runtime& runtime) : runtime_(&runtime) {}
  Requests(Requests&&) noexcept;
  Requests& operator=(Requests&&) = delete;
  ~Requests();

  /// Keeps `owner` alive for as long as the requests exist.
  template <typename T>
  void keep(T owner) {
    owners_.push_back(std::make_shared<T>(std::move(owner)));
  }

  void send(MPI_Comm comm, ConstBytes data, int to, int tag);
  /// `from` may be MPI_ANY_SOURCE.
  void receive(MPI_Comm comm, Bytes data, int from, int tag);

  /// Advances the requests. Returns true when all requests are done.
  ///
  /// Throws `DistributedError` if a request failed or if a message does not
  /// have the length that its receiver expects.
  bool test();

  /// The ranks that the requests still wait for; MPI_ANY_SOURCE means any rank.
  std::vector<int> waiting_for() const;
  /// The rank that sent the message of the last finished `receive`.
  int source() const { return source_; }

 private:
  struct Entry {
    MPI_Comm comm;
    Bytes data;
    int other_rank;
    int tag;
    bool is_expected;  // Its message has not arrived yet.
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;  // To be freed when done.
  };

  class Typed;
  bool test(Entry& entry);
  bool take(Entry& entry);
  void check_length(const Entry& entry, const MPI_Status& status);

  Runtime* runtime_;
  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<void>> owners_;
  int source_ = -1;
};

}  // namespace accelerate::mpi
