// SPDX-License-Identifier: Apache-2.0
// Tells the members of a group who has left it for good.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/runtime.h"

namespace accelerate::mpi {

/// A rank that drops its group (or ends) tells the others how many collectives
/// it took part in. A rank that waits in a later one then knows that this
/// member will never come, and need not wait for the timeout.
///
/// Thread-safe.
class Farewell {
 public:
  Farewell(Runtime& runtime, MPI_Comm comm, int rank, int size);
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;

  /// Says that this rank leaves after `last` collectives. Once.
  void say(std::uint64_t last);

  /// How many collectives `peer` took part in before it left; empty while it
  /// is here.
  std::optional<std::uint64_t> left_after(int peer);

 private:
  struct Peer {
    MPI_Request request = MPI_REQUEST_NULL;
    std::uint64_t last = 0;
    bool left = false;
  };

  Runtime& runtime_;
  const MPI_Comm comm_;
  const int rank_;
  // Leaked with the communicator: MPI holds pointers into it.
  std::vector<Peer>& peers_;
};

}  // namespace accelerate::mpi
