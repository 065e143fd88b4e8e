// SPDX-License-Identifier: Apache-2.0
// The tags of our messages, by communicator.
#pragma once

namespace accelerate::mpi {

// On the communicator of a group's collectives. Two collectives may share a
// tag: MPI keeps the messages between two ranks in order, and so do we.
inline constexpr int kExchangeTag = 1;
inline constexpr int kBarrierTag = 2;
inline constexpr int kBroadcastTag = 3;
inline constexpr int kGatherTag = 4;
inline constexpr int kFarewellTag = 5;

// On MPI_COMM_WORLD, while members of a new group meet. A program that calls
// MPI itself must leave these to us: 16384 … 32767, the upper half of what
// every MPI offers.
inline constexpr int kFirstMeetingTag = 16384;
inline constexpr int kMeetingTags = 16384;

}  // namespace accelerate::mpi
