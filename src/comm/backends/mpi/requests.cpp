// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/requests.h"

#include <array>
#include <climits>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {

// A length as MPI counts it: bytes if the length fits in an `int`, otherwise
// one element of a type with that length.
class Requests::Typed {
 public:
  explicit Typed(std::size_t size) : bytes(size) {
    if (size <= INT_MAX) {
      count = static_cast<int>(size);
      return;
    }
    constexpr std::size_t kBlock = std::size_t{1} << 30;
    MPI_Datatype block = MPI_DATATYPE_NULL;
    check(
        MPI_Type_contiguous(int{kBlock}, MPI_BYTE, &block),
        "MPI_Type_contiguous");
    std::array lengths = {
        static_cast<int>(size / kBlock), static_cast<int>(size % kBlock)};
    std::array offsets = {
        MPI_Aint{0}, static_cast<MPI_Aint>(size / kBlock * kBlock)};
    std::array types = {block, MPI_BYTE};
    const int made = MPI_Type_create_struct(
        2, lengths.data(), offsets.data(), types.data(), &type);
    MPI_Type_free(&block);
    check(made, "MPI_Type_create_struct");
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    count = 1;
    owned = type;
  }

  std::size_t bytes;
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
  MPI_Datatype owned = MPI_DATATYPE_NULL;
};

Requests::Requests(Requests&& other) noexcept
    : runtime_(other.runtime_),
      entries_(std::exchange(other.entries_, {})),
      owners_(std::exchange(other.owners_, {})),
      source_(other.source_) {
}

Requests::~Requests() {
  if (!entries_.empty()) {
    new std::vector<std::shared_ptr<void>>(std::move(owners_));
  }
}

void Requests::send(MPI_Comm comm, ConstBytes data, int to, int tag) {
  const auto guard = runtime_->lock();
  const Typed typed(data.size());
  Entry entry{comm, {}, to, tag, false};
  entry.type = typed.owned;
  check(
      MPI_Isend(
          data.data(), typed.count, typed.type, to, tag, comm, &entry.request),
      "MPI_Isend");
  entries_.push_back(entry);
}

void Requests::receive(MPI_Comm comm, Bytes data, int from, int tag) {
  entries_.push_back({comm, data, from, tag, true});
}

bool Requests::test() {
  const auto guard = runtime_->lock();
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
  if (done != 0 && entry.type != MPI_DATATYPE_NULL) {
    MPI_Type_free(&entry.type);
  }
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
  check_length(entry, status);
  const Typed typed(entry.data.size());
  entry.type = typed.owned;
  check(
      MPI_Imrecv(
          entry.data.data(), typed.count, typed.type, &message, &entry.request),
      "MPI_Imrecv");
  entry.is_expected = false;
  return true;
}

void Requests::check_length(const Entry& entry, const MPI_Status& status) {
  source_ = status.MPI_SOURCE;
  MPI_Count received = 0;
  check(MPI_Get_elements_x(&status, MPI_BYTE, &received), "MPI_Get_elements_x");
  if (static_cast<std::size_t>(received) != entry.data.size()) {
    throw DistributedError(
        str_cat(
            "rank ",
            source_,
            " of the group sent ",
            received,
            " bytes, expected ",
            entry.data.size()),
        "make the same calls with tensors of the same size and type on all "
        "ranks");
  }
}

std::vector<int> Requests::waiting_for() const {
  std::vector<int> ranks;
  for (const Entry& entry : entries_) {
    ranks.push_back(entry.other_rank);
  }
  return ranks;
}

}  // namespace accelerate::mpi
