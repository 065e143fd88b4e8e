// SPDX-License-Identifier: Apache-2.0
// Pending MPI requests and the memory that they use.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/runtime.h"

namespace accelerate::mpi {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// The tags on the communicator of a group. Messages of the same kind may share
// a tag: MPI and this library keep the messages between two ranks in order.
enum Tag : int { kHeaderTag = 1, kDataTag, kDepartureTag };

/// Several MPI requests that are polled together, until all requests are done.
///
/// A message must be shorter than 2 GiB.
///
/// NOTE [Probe first]: a receive is handed to MPI only after its message has
/// arrived and the length of the message has been checked. Open MPI 4.1 writes
/// past the end of a buffer that is too short for a long message.
///
/// After a timeout, MPI still holds pointers into the buffers. In this case,
/// the objects passed to `keep` are never freed.
///
/// Thread safety: use from only one thread at a time.
class Requests {
 public:
  explicit Requests(Runtime& runtime) : runtime_(runtime) {}
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests();

  /// Keeps `owner` alive for as long as the requests exist.
  void keep(std::shared_ptr<const void> owner) {
    owners_.push_back(std::move(owner));
  }

  void send(MPI_Comm comm, ConstBytes data, int to, int tag);
  /// Starts to receive a message, which may be shorter than `data`.
  void receive(MPI_Comm comm, Bytes data, int from, int tag);

  /// Advances the requests. Returns true when all requests are done.
  ///
  /// Throws `DistributedError` if a request failed, and `InternalError` if a
  /// message is longer than the buffer of its receiver.
  bool test();

  /// Returns the ranks that the requests still wait for, sorted and without
  /// duplicates.
  std::vector<int> waiting_for() const;

 private:
  struct Entry {
    MPI_Comm comm;
    Bytes data;
    int other_rank;
    int tag;
    bool is_expected;  // Whether the message has not arrived yet.
    MPI_Request request = MPI_REQUEST_NULL;
  };

  bool test(Entry& entry);
  bool take(Entry& entry);
  void set_length(Entry& entry, const MPI_Status& status);

  Runtime& runtime_;
  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace accelerate::mpi
