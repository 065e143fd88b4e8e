// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/farewell.h"

#include "comm/backends/mpi/tags.h"

namespace accelerate::mpi {

Farewell::Farewell(Runtime& runtime, MPI_Comm comm, int rank, int size)
    : runtime_(runtime),
      comm_(comm),
      rank_(rank),
      peers_(*new std::vector<Peer>(static_cast<std::size_t>(size))) {
  const auto guard = runtime_.lock();
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank_) {
      Peer& entry = peers_[static_cast<std::size_t>(peer)];
      check(
          MPI_Irecv(
              &entry.last,
              sizeof entry.last,
              MPI_BYTE,
              peer,
              kFarewellTag,
              comm_,
              &entry.request),
          "MPI_Irecv");
    }
  }
}

void Farewell::say(std::uint64_t last) {
  const auto guard = runtime_.lock();
  // Leaked: the messages may still be under way when this object is gone.
  const auto* message = new std::uint64_t(last);
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (static_cast<int>(peer) == rank_) {
      continue;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const int sent = MPI_Isend(
        message,
        sizeof *message,
        MPI_BYTE,
        static_cast<int>(peer),
        kFarewellTag,
        comm_,
        &request);
    if (sent == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
}

std::optional<std::uint64_t> Farewell::left_after(int peer) {
  const auto guard = runtime_.lock();
  Peer& entry = peers_[static_cast<std::size_t>(peer)];
  if (!entry.left && entry.request != MPI_REQUEST_NULL) {
    int done = 0;
    check(MPI_Test(&entry.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    entry.left = done != 0;
  }
  return entry.left ? std::optional(entry.last) : std::nullopt;
}

}  // namespace accelerate::mpi
