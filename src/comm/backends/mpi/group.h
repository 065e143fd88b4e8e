// SPDX-License-Identifier: Apache-2.0
// The processes of one backend, with communicators of their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/farewell.h"
#include "comm/backends/mpi/health.h"
#include "comm/backends/mpi/requests.h"
#include "comm/backends/mpi/runtime.h"
#include "comm/plugin.h"

namespace accelerate::mpi {

/// One operation of a group while it runs.
struct Operation {
  std::string name;
  std::uint64_t sequence = 0;
  std::chrono::milliseconds timeout{0};
  Clock::time_point deadline;
};

/// Members, communicators and state of one group.
///
/// The communicators live as long as the process: MPI_Comm_free is collective,
/// while ranks drop their groups whenever they like, and a communicator that
/// is never reused cannot receive a late message of an older group.
///
/// Thread safety: the fields are fixed after construction; `health` and
/// `farewell` are thread-safe.
class Group {
 public:
  /// Collective over the members. Throws `ConfigError` when MPI counts the
  /// processes differently, `ArgumentError` when the members make no sense,
  /// `DistributedError` that names the members that did not come in time.
  explicit Group(const PluginGroupOptions& options);

  Runtime& runtime;
  const std::string name;
  const std::vector<int> members;
  const std::chrono::milliseconds timeout;
  const int rank;
  const int size;
  /// For collectives, and apart for `send` and `recv`, so that a receive from
  /// any source never takes a piece of a collective.
  MPI_Comm collectives = MPI_COMM_NULL;
  MPI_Comm messages = MPI_COMM_NULL;
  Health health;
  std::unique_ptr<Farewell> farewell;

  /// "rank 3" or "ranks 1, 3", by process index; "other ranks" if unknown.
  std::string name_peers(const std::vector<int>& peers) const;

  /// Returns when the requests are done. Calls `meanwhile` between two looks.
  ///
  /// A spinning thread looks again at once for as long as `expected_bytes`
  /// should take, then sleeps between looks. Throws `DistributedError` when
  /// the time is over, a member left, or the group is broken.
  void await(
      Requests& requests,
      const Operation& operation,
      std::size_t expected_bytes,
      const std::function<void()>& meanwhile);

  /// `requests.test()`, with the operation's title before the text of errors.
  bool test(Requests& requests, const Operation& operation) const;

  /// "all_reduce #12 in group `world`".
  std::string title(const Operation& operation) const;

 private:
  void meet(int tag);
  void create_communicators();
  [[noreturn]] void give_up(
      const Requests& requests, const Operation& operation) const;
  void check_nobody_left(const Operation& operation) const;
};

}  // namespace accelerate::mpi
