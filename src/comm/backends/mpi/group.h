// SPDX-License-Identifier: Apache-2.0
// The processes in one MPI process group and their communicators.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "comm/backends/mpi/departure_notice.h"
#include "comm/backends/mpi/health.h"
#include "comm/backends/mpi/requests.h"
#include "comm/backends/mpi/runtime.h"
#include "comm/plugin.h"

namespace accelerate::mpi {

/// A running operation of a process group.
struct Operation {
  std::string name;
  std::uint64_t sequence = 0;
  std::chrono::milliseconds timeout{0};
  Clock::time_point deadline;
};

/// Members, communicators and state of one process group.
///
/// The communicators live as long as the process: MPI_Comm_free is collective,
/// while ranks destroy their groups at different times. A communicator that is
/// never reused cannot receive a late message from an older group.
///
/// Thread safety: the fields are fixed after construction; `health` and
/// `departure_notice` are thread-safe.
class Group {
 public:
  /// Collective over the members. Throws `ConfigError` if the process index or
  /// the number of processes in `options` differs from what MPI reports,
  /// `ArgumentError` if the list of members is invalid, and a
  /// `DistributedError` that names the missing members after the timeout.
  explicit Group(const PluginGroupOptions& options);

  Runtime& runtime;
  const std::string name;
  const std::vector<int> members;
  const std::chrono::milliseconds timeout;
  const int rank;
  const int size;
  /// One communicator for collectives and one for `send` and `recv`, so that a
  /// receive from any source never takes a chunk of a collective's data.
  MPI_Comm collectives = MPI_COMM_NULL;
  MPI_Comm messages = MPI_COMM_NULL;
  Health health;
  std::unique_ptr<DepartureNotice> departure_notice;

  /// Returns text such as "rank 3" or "ranks 1, 3" with the process indices of
  /// `ranks`; "other ranks" if `ranks` contains MPI_ANY_SOURCE.
  std::string name_members(const std::vector<int>& ranks) const;

  /// Polls the requests and returns when all requests are done. Calls
  /// `meanwhile` between polls.
  ///
  /// Spins for as long as transferring `expected_bytes` should take, then
  /// sleeps between polls. Throws `DistributedError` after the timeout, when a
  /// member has left the group, or when the group is unusable.
  void await(
      Requests& requests,
      const Operation& operation,
      std::size_t expected_bytes,
      const std::function<void()>& meanwhile);

  /// Calls `requests.test()`, and prefixes its errors with the operation's
  /// title.
  bool test(Requests& requests, const Operation& operation) const;

  /// Returns text such as "all_reduce #12 in group `world`".
  std::string title(const Operation& operation) const;

 private:
  void wait_for_members(int tag);
  void create_communicators();
  [[noreturn]] void throw_timeout(
      const Requests& requests, const Operation& operation) const;
  void check_no_rank_left(const Operation& operation) const;
};

}  // namespace accelerate::mpi
