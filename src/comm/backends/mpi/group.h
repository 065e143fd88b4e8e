// SPDX-License-Identifier: Apache-2.0
// The processes in one MPI process group and their communicator.
#pragma once

#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/runtime.h"
#include "comm/plugin.h"

namespace accelerate::mpi {

/// The members and the communicator of one process group.
///
/// The communicator is never freed: MPI_Comm_free is collective, but ranks
/// destroy their groups at different times. Because a communicator is never
/// reused, it cannot receive a late message from an older group.
class Group {
 public:
  /// Creates the communicator. Collective over the members. Throws
  /// `ConfigError` if the process index or the number of processes in `options`
  /// differs from what MPI reports, and, after the timeout, a
  /// `DistributedError` that names the missing members.
  explicit Group(const PluginGroupOptions& options);

  Runtime& runtime;
  /// Process indices, in rank order.
  const std::vector<int> members;
  const int rank;
  const int size;
  MPI_Comm communicator = MPI_COMM_NULL;

 private:
  void wait_for_members(int tag, const PluginGroupOptions& options);
};

}  // namespace accelerate::mpi
