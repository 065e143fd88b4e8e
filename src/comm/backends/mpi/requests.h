// SPDX-License-Identifier: Apache-2.0
// MPI requests that are under way, and the memory they use.
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

/// Several requests that are started together and finished together.
///
/// Messages of any length: what an `int` cannot count travels as one element
/// of a derived type.
///
/// NOTE [Probe first]: a receive is handed to MPI only when a message has come
/// and its length was compared. Open MPI 4.1 writes past the end of a buffer
/// that is too short for a long message, so ranks that disagree would corrupt
/// memory. For the same reason none of MPI's own collectives is used: they
/// would match whatever call another rank is in.
///
/// Whoever gives up on requests leaves MPI with pointers into their buffers.
/// So everything passed to `keep` is leaked with them rather than freed.
///
/// Thread safety: one thread at a time.
class Requests {
 public:
  explicit Requests(Runtime& runtime) : runtime_(&runtime) {}
  Requests(Requests&&) noexcept;
  Requests& operator=(Requests&&) = delete;
  ~Requests();

  /// Ties the life of `owner` to that of the requests.
  template <typename T>
  void keep(T owner) {
    owners_.push_back(std::make_shared<T>(std::move(owner)));
  }

  void send(MPI_Comm comm, ConstBytes data, int to, int tag);
  /// `from` may be MPI_ANY_SOURCE.
  void receive(MPI_Comm comm, Bytes data, int from, int tag);

  /// Moves the requests on; true when all are done.
  ///
  /// Throws `DistributedError` when one failed or a message had another length
  /// than its receiver expected.
  bool test();

  /// The ranks that requests still wait for; MPI_ANY_SOURCE stands for any.
  std::vector<int> waiting_for() const;
  /// Where the last finished `receive` came from.
  int source() const { return source_; }

 private:
  struct Entry {
    MPI_Comm comm;
    Bytes data;
    int peer;
    int tag;
    bool is_expected;  // Its message has not come yet.
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
