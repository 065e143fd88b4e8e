// SPDX-License-Identifier: Apache-2.0
// The tags of our MPI messages, by communicator.
#pragma once

namespace accelerate::mpi {

// Tags on the communicator for a group's collectives. Two collectives may share
// a tag: MPI and this library keep the messages between two ranks in order.
inline constexpr int kExchangeTag = 1;
inline constexpr int kBarrierTag = 2;
inline constexpr int kBroadcastTag = 3;
inline constexpr int kGatherTag = 4;
inline constexpr int kDepartureTag = 5;

// Tags on MPI_COMM_WORLD, for the rendezvous of a new group. A program that
// calls MPI itself must not use these tags (16384 … 32767), which are the upper
// half of the range that every MPI library supports.
inline constexpr int kFirstRendezvousTag = 16384;
inline constexpr int kRendezvousTags = 16384;

}  // namespace accelerate::mpi
