// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/group.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/mpi/pause.h"
#include "comm/backends/mpi/requests.h"

namespace accelerate::mpi {
namespace {

std::vector<int> members_of(const PluginGroupOptions& options) {
  if (!options.members.empty()) {
    return options.members;
  }
  std::vector<int> all(static_cast<std::size_t>(options.num_processes));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int rank_among(const std::vector<int>& members, int process_index) {
  const auto found = std::find(members.begin(), members.end(), process_index);
  return static_cast<int>(found - members.begin());
}

// Checks the options before any other MPI call, so that a program that was
// started incorrectly fails with a clear error.
Runtime& runtime_for(const PluginGroupOptions& options) {
  Runtime& runtime = Runtime::start(options.limits.timeout);
  if (runtime.rank() == options.process_index &&
      runtime.size() == options.num_processes) {
    return runtime;
  }
  throw ConfigError(
      str_cat(
          "this is process ",
          options.process_index,
          " of ",
          options.num_processes,
          ", but MPI reports rank ",
          runtime.rank(),
          " of ",
          runtime.size()),
      str_cat(
          "start all processes with one `mpirun -n ",
          options.num_processes,
          "`, or choose another backend"));
}

// Tags on MPI_COMM_WORLD for the rendezvous of a new group. A program that
// calls MPI itself must not use these tags (16384 … 32767), which are the upper
// half of the range that every MPI library supports.
constexpr int kFirstTag = 16384;
constexpr int kTags = 16384;

// Counts how often this rank has created a group with these members. All
// members get the same number, because ranks create groups in the same order.
int rendezvous_tag(const std::vector<int>& members) {
  static std::map<std::vector<int>, std::uint32_t> times;
  std::uint32_t hash = 2166136261U + times[members]++;
  for (const int member : members) {
    hash = (hash ^ static_cast<std::uint32_t>(member)) * 16777619U;
  }
  return kFirstTag + static_cast<int>(hash % kTags);
}

MPI_Comm create_communicator(const std::vector<int>& members, int tag) {
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group subset = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(
      MPI_Group_incl(
          world, static_cast<int>(members.size()), members.data(), &subset),
      "MPI_Group_incl");
  check(
      MPI_Comm_create_group(MPI_COMM_WORLD, subset, tag, &communicator),
      "MPI_Comm_create_group");
  check(
      MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN),
      "MPI_Comm_set_errhandler");
  MPI_Group_free(&subset);
  MPI_Group_free(&world);
  return communicator;
}

}  // namespace

Group::Group(const PluginGroupOptions& options)
    : runtime(runtime_for(options)),
      members(members_of(options)),
      rank(rank_among(members, options.process_index)),
      size(static_cast<int>(members.size())) {
  // A process creates only one group at a time, so that all ranks create groups
  // in the same order.
  static std::mutex creation;
  const std::lock_guard guard(creation);
  const int tag = rendezvous_tag(members);
  wait_for_members(tag, options);
  // All members have arrived, so creating the communicator is quick and may
  // hold the lock. The call shares ownership of the result, because it may
  // outlive this object.
  const auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const auto create = [made, tag, indices = members, &runtime = runtime] {
    const auto lock = runtime.lock();
    *made = create_communicator(indices, tag);
  };
  runtime.run(create, options.limits.timeout, "creating a process group");
  communicator = *made;
}

// MPI_Comm_create_group waits without a timeout and does not report which
// processes it waits for. The members therefore exchange empty messages first,
// with a timeout.
void Group::wait_for_members(int tag, const PluginGroupOptions& options) {
  Requests requests(runtime);
  for (int other = 0; other < size; ++other) {
    if (other != rank) {
      const int process = members[static_cast<std::size_t>(other)];
      requests.receive(MPI_COMM_WORLD, {}, process, tag);
      requests.send(MPI_COMM_WORLD, {}, process, tag);
    }
  }
  const Call call{"creation of an MPI process group", 1};
  Wait wait(call, runtime.rank(), options.limits);
  Pause pause;
  try {
    while (!requests.test()) {
      if (pause()) {
        wait.still_missing(requests.waiting_for());
      }
    }
  } catch (const DistributedError&) {
    runtime.skip_finalize();
    throw;
  }
}

}  // namespace accelerate::mpi
