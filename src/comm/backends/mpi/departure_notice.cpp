// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/departure_notice.h"

#include "comm/backends/mpi/tags.h"

namespace accelerate::mpi {

DepartureNotice::DepartureNotice(
    Runtime& runtime, MPI_Comm comm, int rank, int size)
    : runtime_(runtime),
      comm_(comm),
      rank_(rank),
      members_(*new std::vector<Member>(static_cast<std::size_t>(size))) {
  const auto guard = runtime_.lock();
  for (int other = 0; other < size; ++other) {
    if (other != rank_) {
      Member& entry = members_[static_cast<std::size_t>(other)];
      check(
          MPI_Irecv(
              &entry.last,
              sizeof entry.last,
              MPI_BYTE,
              other,
              kDepartureTag,
              comm_,
              &entry.request),
          "MPI_Irecv");
    }
  }
}

void DepartureNotice::send(std::uint64_t last) {
  const auto guard = runtime_.lock();
  // Leaked: the messages may still be in flight after this object is destroyed.
  const auto* message = new std::uint64_t(last);
  for (std::size_t other = 0; other < members_.size(); ++other) {
    if (static_cast<int>(other) == rank_) {
      continue;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const int sent = MPI_Isend(
        message,
        sizeof *message,
        MPI_BYTE,
        static_cast<int>(other),
        kDepartureTag,
        comm_,
        &request);
    if (sent == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
}

std::optional<std::uint64_t> DepartureNotice::left_after(int rank) {
  const auto guard = runtime_.lock();
  Member& entry = members_[static_cast<std::size_t>(rank)];
  if (!entry.left && entry.request != MPI_REQUEST_NULL) {
    int done = 0;
    check(MPI_Test(&entry.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    entry.left = done != 0;
  }
  return entry.left ? std::optional(entry.last) : std::nullopt;
}

}  // namespace accelerate::mpi
