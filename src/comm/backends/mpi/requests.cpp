// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/requests.h"

#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {

Requests::~Requests() {
  if (!entries_.empty()) {
    new std::vector<std::shared_ptr<const void>>(std::move(owners_));
  }
}

void Requests::send(MPI_Comm comm, ConstBytes data, int to, int tag) {
  const auto guard = runtime_.lock();
  Entry entry{comm, {}, to, tag, false};
  check(
      MPI_Isend(
          data.data(),
          static_cast<int>(data.size()),
          MPI_BYTE,
          to,
          tag,
          comm,
          &entry.request),
      "MPI_Isend");
  entries_.push_back(entry);
}

void Requests::receive(MPI_Comm comm, Bytes data, int from, int tag) {
  entries_.push_back({comm, data, from, tag, true});
}

bool Requests::test() {
  const auto guard = runtime_.lock();
  std::size_t open = 0;
  while (open < entries_.size()) {
    if (test(entries_[open])) {
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(open));
    } else {
      ++open;
    }
  }
  return entries_.empty();
}

bool Requests::test(Entry& entry) {
  if (entry.is_expected && !take(entry)) {
    return false;
  }
  int done = 0;
  check(MPI_Test(&entry.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

// Starts the receive if its message has arrived.
bool Requests::take(Entry& entry) {
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status{};
  check(
      MPI_Improbe(
          entry.other_rank, entry.tag, entry.comm, &found, &message, &status),
      "MPI_Improbe");
  if (found == 0) {
    return false;
  }
  set_length(entry, status);
  check(
      MPI_Imrecv(
          entry.data.data(),
          static_cast<int>(entry.data.size()),
          MPI_BYTE,
          &message,
          &entry.request),
      "MPI_Imrecv");
  entry.is_expected = false;
  return true;
}

void Requests::set_length(Entry& entry, const MPI_Status& status) {
  int received = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  const auto length = static_cast<std::size_t>(received);
  if (length > entry.data.size()) {
    throw InternalError(str_cat(
        "rank ",
        entry.other_rank,
        " of the group sent ",
        received,
        " bytes, more than the ",
        entry.data.size(),
        " bytes expected"));
  }
  entry.data = entry.data.first(length);
}

std::vector<int> Requests::waiting_for() const {
  std::set<int> ranks;
  for (const Entry& entry : entries_) {
    ranks.insert(entry.other_rank);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace accelerate::mpi
