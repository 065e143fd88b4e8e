// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/departure.h"

#include <utility>

#include "accelerate/error.h"
#include "comm/backends/mpi/requests.h"

namespace accelerate::mpi {

static constexpr int kBytes = sizeof(std::uint64_t);

Departure::Departure(const Group& group)
    : runtime_(group.runtime),
      communicator_(group.communicator),
      rank_(group.rank),
      members_(*new std::vector<Member>(static_cast<std::size_t>(group.size))) {
  const auto guard = runtime_.lock();
  for (int r = 0; r < group.size; ++r) {
    if (r != rank_) {
      Member& member = members_[static_cast<std::size_t>(r)];
      check(
          MPI_Irecv(
              &member.deliveries,
              kBytes,
              MPI_BYTE,
              r,
              kDepartureTag,
              communicator_,
              &member.request),
          "MPI_Irecv");
    }
  }
}

void Departure::begin_delivery() {
  const std::lock_guard guard(mutex_);
  if (left_) {
    throw StateError(
        "the process group used by this call is closed",
        "keep the group alive until the last call has returned, and do not "
        "use it while the program is exiting");
  }
  ++deliveries_;
}

void Departure::leave() {
  const std::lock_guard guard(mutex_);
  if (std::exchange(left_, true)) {
    return;
  }
  if (exchanging_) {
    runtime_.skip_finalize();
  } else if (runtime_.alive()) {
    send_notice();
  }
}

void Departure::send_notice() {
  const auto guard = runtime_.lock();
  // Never freed, because messages may still be in flight after this object is
  // destroyed.
  const auto* message = new std::uint64_t(deliveries_);
  for (int r = 0; r < static_cast<int>(members_.size()); ++r) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (r != rank_ && MPI_Isend(
                          message,
                          kBytes,
                          MPI_BYTE,
                          r,
                          kDepartureTag,
                          communicator_,
                          &request) == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
}

bool Departure::has_left(int rank) {
  const std::lock_guard guard(mutex_);
  const auto lock = runtime_.lock();
  Member& member = members_[static_cast<std::size_t>(rank)];
  // MPI_Test also returns true for the null request of a received message.
  int received = 0;
  check(MPI_Test(&member.request, &received, MPI_STATUS_IGNORE), "MPI_Test");
  return received != 0 && member.deliveries < deliveries_;
}

}  // namespace accelerate::mpi
