// SPDX-License-Identifier: Apache-2.0
// Tells the ranks of a process group which ranks have left the group.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/runtime.h"

namespace accelerate::mpi {

/// When a rank destroys its process group or exits, it sends the other ranks
/// the number of collectives that it took part in. A rank that waits in a later
/// collective then fails immediately instead of timing out.
///
/// Thread-safe.
class DepartureNotice {
 public:
  DepartureNotice(Runtime& runtime, MPI_Comm comm, int rank, int size);
  DepartureNotice(const DepartureNotice&) = delete;
  DepartureNotice& operator=(const DepartureNotice&) = delete;

  /// Announces that this rank leaves after `last` collectives. Call `send` only
  /// once.
  void send(std::uint64_t last);

  /// How many collectives `rank` took part in before it left; empty if `rank`
  /// has not left.
  std::optional<std::uint64_t> left_after(int rank);

 private:
  struct Member {
    MPI_Request request = MPI_REQUEST_NULL;
    std::uint64_t last = 0;
    bool left = false;
  };

  Runtime& runtime_;
  const MPI_Comm comm_;
  const int rank_;
  // Leaked with the communicator: MPI holds pointers into this vector.
  std::vector<Member>& members_;
};

}  // namespace accelerate::mpi
