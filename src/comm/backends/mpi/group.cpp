// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/group.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/mpi/pause.h"
#include "comm/backends/mpi/tags.h"

namespace accelerate::mpi {
namespace {

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    text += str_cat(text.empty() ? "" : ", ", number);
  }
  return text;
}

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
  return found == members.end() ? -1
                                : static_cast<int>(found - members.begin());
}

void check_members(const PluginGroupOptions& options) {
  const std::vector<int> members = members_of(options);
  const auto outside = [&](int member) {
    return member < 0 || member >= options.num_processes;
  };
  if (std::any_of(members.begin(), members.end(), outside) ||
      std::set<int>(members.begin(), members.end()).size() != members.size()) {
    throw ArgumentError(
        str_cat(
            "the members of group `",
            options.group_name,
            "` are ",
            list(members),
            ", but must be distinct process indices below ",
            options.num_processes),
        str_cat(
            "list each process only once, with an index below ",
            options.num_processes));
  }
  if (rank_among(members, options.process_index) < 0) {
    throw ArgumentError(
        str_cat(
            "process ",
            options.process_index,
            " is not a member of group `",
            options.group_name,
            "` (",
            list(members),
            ")"),
        "create a group only in the processes that belong to it");
  }
  if (options.timeout <= std::chrono::milliseconds(0)) {
    throw ArgumentError(
        str_cat(
            "the timeout of group `",
            options.group_name,
            "` is ",
            options.timeout.count(),
            " ms"),
        "pass a timeout greater than 0");
  }
}

// Checked before any other MPI call: a program that was started the wrong way
// fails here with a clear error.
Runtime& runtime_for(const PluginGroupOptions& options) {
  check_members(options);
  Runtime& runtime = Runtime::start(options.timeout);
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

// Ranks create groups in the same order, so all members get the same number by
// counting how often they have created a group with these members.
int rendezvous_tag(const std::vector<int>& members) {
  static std::map<std::vector<int>, std::uint32_t> times;
  std::uint32_t hash = 2166136261U + times[members]++;
  for (const int member : members) {
    hash = (hash ^ static_cast<std::uint32_t>(member)) * 16777619U;
  }
  return kFirstRendezvousTag + static_cast<int>(hash % kRendezvousTags);
}

struct Communicators {
  MPI_Comm collectives = MPI_COMM_NULL;
  MPI_Comm messages = MPI_COMM_NULL;
};

Communicators create_from(const std::vector<int>& members, int tag) {
  Communicators made;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group subset = MPI_GROUP_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(
      MPI_Group_incl(
          world, static_cast<int>(members.size()), members.data(), &subset),
      "MPI_Group_incl");
  for (MPI_Comm* comm : {&made.collectives, &made.messages}) {
    check(
        MPI_Comm_create_group(MPI_COMM_WORLD, subset, tag, comm),
        "MPI_Comm_create_group");
    check(
        MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN),
        "MPI_Comm_set_errhandler");
  }
  MPI_Group_free(&subset);
  MPI_Group_free(&world);
  return made;
}

}  // namespace

Group::Group(const PluginGroupOptions& options)
    : runtime(runtime_for(options)),
      name(options.group_name),
      members(members_of(options)),
      timeout(options.timeout),
      rank(rank_among(members, options.process_index)),
      size(static_cast<int>(members.size())),
      health(options.group_name) {
  // A process creates one group at a time, so that all ranks use the same
  // order.
  static std::mutex creation;
  const std::lock_guard guard(creation);
  create_communicators();
  departure_notice =
      std::make_unique<DepartureNotice>(runtime, collectives, rank, size);
}

std::string Group::name_members(const std::vector<int>& ranks) const {
  std::set<int> indices;
  for (const int member : ranks) {
    if (member == MPI_ANY_SOURCE) {
      return "other ranks";
    }
    indices.insert(members[static_cast<std::size_t>(member)]);
  }
  return str_cat(
      indices.size() == 1 ? "rank " : "ranks ",
      list(std::vector<int>(indices.begin(), indices.end())));
}

std::string Group::title(const Operation& operation) const {
  return str_cat(
      operation.name, " #", operation.sequence, " in group `", name, "`");
}

void Group::create_communicators() {
  const int tag = rendezvous_tag(members);
  wait_for_members(tag);
  // All members have arrived, so the creation is quick and may hold the lock.
  // The result is shared because the call may outlive this object.
  const auto made = std::make_shared<Communicators>();
  const auto create = [made, tag, indices = members, &runtime = runtime] {
    const auto guard = runtime.lock();
    *made = create_from(indices, tag);
  };
  runtime.run(create, timeout, str_cat("creating group `", name, "`"));
  collectives = made->collectives;
  messages = made->messages;
}

// MPI_Comm_create_group waits without a timeout and does not report which
// processes it waits for. The members therefore exchange empty messages first,
// with a timeout.
void Group::wait_for_members(int tag) {
  Requests requests(runtime);
  for (int other = 0; other < size; ++other) {
    if (other != rank) {
      const int process = members[static_cast<std::size_t>(other)];
      requests.receive(MPI_COMM_WORLD, {}, process, tag);
      requests.send(MPI_COMM_WORLD, {}, process, tag);
    }
  }
  Pause pause;
  const auto deadline = Clock::now() + timeout;
  while (!requests.test()) {
    pause();
    if (Clock::now() > deadline) {
      runtime.skip_finalize();
      auto late = requests.waiting_for();
      std::sort(late.begin(), late.end());
      late.erase(std::unique(late.begin(), late.end()), late.end());
      throw DistributedError(
          str_cat(
              "group `",
              name,
              "` could not be created within ",
              timeout.count(),
              " ms: process ",
              runtime.rank(),
              " is still waiting for ",
              late.size() == 1 ? "process " : "processes ",
              list(late)),
          "create the same groups in the same order in all member processes");
    }
  }
}

bool Group::test(Requests& requests, const Operation& operation) const {
  try {
    return requests.test();
  } catch (const DistributedError& error) {
    throw DistributedError(
        str_cat(title(operation), ": ", error.what()), error.hint());
  }
}

void Group::await(
    Requests& requests,
    const Operation& operation,
    std::size_t expected_bytes,
    const std::function<void()>& meanwhile) {
  Pause pause(expected_bytes);
  constexpr auto kCheckInterval = std::chrono::milliseconds(20);
  auto next_check = Clock::now() + kCheckInterval;
  while (!test(requests, operation)) {
    meanwhile();
    health.require_usable();
    if (!pause() || Clock::now() < next_check) {
      continue;
    }
    next_check = Clock::now() + kCheckInterval;
    check_no_rank_left(operation);
    if (Clock::now() > operation.deadline) {
      throw_timeout(requests, operation);
    }
  }
}

void Group::check_no_rank_left(const Operation& operation) const {
  std::vector<int> departed;
  for (int other = 0; other < size; ++other) {
    const auto last =
        other == rank ? std::nullopt : departure_notice->left_after(other);
    if (last && *last < operation.sequence) {
      departed.push_back(other);
    }
  }
  if (!departed.empty()) {
    throw DistributedError(
        str_cat(
            title(operation),
            ": ",
            name_members(departed),
            " left the group before this call"),
        "call each collective on every rank, and keep the group alive until "
        "the last collective has finished");
  }
}

void Group::throw_timeout(
    const Requests& requests, const Operation& operation) const {
  throw DistributedError(
      str_cat(
          title(operation),
          " did not finish within ",
          operation.timeout.count(),
          " ms: rank ",
          runtime.rank(),
          " is still waiting for ",
          name_members(requests.waiting_for())),
      "check what the other ranks are doing; raise the timeout if they are "
      "just slow");
}

}  // namespace accelerate::mpi
