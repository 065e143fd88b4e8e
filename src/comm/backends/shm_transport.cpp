// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlign = 64;
constexpr std::size_t kHeaderBytes = 64;
// Not a `c10d::OpType`: the operation of `allocate_shared`.
constexpr std::uint8_t kAllocate = 200;

// One piece. A second-level cache still holds it when the others read it;
// smaller pieces mean more barriers: 32 MiB between two processes took 18.7 ms
// in pieces of 256 KiB and 5.3 ms in pieces of 1 MiB. Many ranks get less each,
// so that a group stays under 64 MiB.
std::size_t piece_for(int size) {
  const std::size_t share = (std::size_t{32} << 20) / size / 4096 * 4096;
  return std::clamp<std::size_t>(share, 64 << 10, 1 << 20);
}

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// The piece of `offer` that starts at `offset`.
Offer cut(Offer offer, std::size_t offset, std::size_t at_most) {
  const std::size_t begin = std::min(offset, offer.size());
  return offer.subspan(begin, std::min(at_most, offer.size() - begin));
}

}  // namespace

// What a rank says about its part of a delivery, once per delivery.
struct ShmTransport::Header {
  Signature signature;
  std::uint64_t to_all_bytes;
  std::uint64_t longest;  // of its offers
  std::uint64_t region;   // 0: the tensor is not in shared memory
  std::uint64_t region_offset;
  std::uint8_t to_each;
};

// Tensors in shared memory: one block per rank, `stride` apart.
struct ShmTransport::Region {
  std::uint64_t id;
  std::weak_ptr<SharedMemory> memory;
  std::byte* base;
  std::size_t stride;
};

// What the headers of all ranks add up to.
struct ShmTransport::Plan {
  int parity = 0;  // of the round that carried the headers
  bool to_each = false;
  bool in_place = false;  // some rank stages nothing
  std::size_t piece = 0;
  std::size_t longest = 0;
  std::vector<std::size_t> lengths;  // of what each rank offers to this one
};

// Layout: rounds · headers [rank][parity], each followed by the lengths of
// what the rank offers to each · staging [rank][parity] · mailboxes.
namespace {

std::size_t header_stride(int size) {
  return round_up(kHeaderBytes + sizeof(std::uint64_t) * size, kAlign);
}

std::size_t headers_bytes(int size) {
  return round_up(2 * header_stride(size) * size, kPage);
}

}  // namespace

std::size_t ShmTransport::bytes(int size) {
  return Rounds::bytes(size) + headers_bytes(size) +
         2 * piece_for(size) * size + ShmMailboxes::bytes(size);
}

ShmTransport::ShmTransport(
    std::shared_ptr<SharedMemory> memory,
    std::byte* where,
    int rank,
    int size,
    Patience patience)
    : rounds_(memory, where, rank, size),
      piece_(piece_for(size)),
      headers_(where + Rounds::bytes(size)),
      staging_(headers_ + headers_bytes(size)),
      patience_(std::move(patience)),
      mailboxes_(memory, staging_ + 2 * piece_ * size, rank, size, patience_) {
  static_assert(sizeof(Header) <= kHeaderBytes);
}

ShmTransport::~ShmTransport() = default;

ShmTransport::Header& ShmTransport::header(int rank, int parity) const {
  return *reinterpret_cast<Header*>(
      headers_ + header_stride(size()) * (2 * rank + parity));
}

std::uint64_t* ShmTransport::lengths(int rank, int parity) const {
  return reinterpret_cast<std::uint64_t*>(
      headers_ + header_stride(size()) * (2 * rank + parity) + kHeaderBytes);
}

std::byte* ShmTransport::staging(int rank, int parity) const {
  return staging_ + piece_ * (2 * rank + parity);
}

std::size_t ShmTransport::piece_bytes(bool to_each) const {
  return to_each ? piece_ / size() / kAlign * kAlign : piece_;
}

void ShmTransport::barrier(const Call& call) {
  rounds_.arrive();
  rounds_.wait(call, patience_);
}

void ShmTransport::stage(
    const Offers& offers, std::size_t offset, int parity) const {
  std::byte* out = staging(rank(), parity);
  if (offers.to_each.empty()) {
    const Offer piece = cut(offers.to_all, offset, piece_);
    std::copy(piece.begin(), piece.end(), out);
    return;
  }
  const std::size_t room = piece_bytes(true);
  for (int to = 0; to < size(); ++to) {
    if (to != rank()) {
      const Offer piece = cut(offers.to_each[to], offset, room);
      std::copy(piece.begin(), piece.end(), out + room * to);
    }
  }
}

void ShmTransport::announce(
    const Header& mine, const Offers& offers, int parity) const {
  header(rank(), parity) = mine;
  std::uint64_t* to = lengths(rank(), parity);
  for (const Offer& offer : offers.to_each) {
    *to++ = offer.size();
  }
}

ShmTransport::Plan ShmTransport::read_headers(
    const Call& call, int parity) const {
  Plan plan;
  plan.parity = parity;
  std::vector<Signature> signatures;
  for (int r = 0; r < size(); ++r) {
    const Header& theirs = header(r, parity);
    signatures.push_back(theirs.signature);
    plan.in_place = plan.in_place || theirs.region != 0;
    plan.to_each = plan.to_each || theirs.to_each != 0;
    plan.longest = std::max<std::size_t>(plan.longest, theirs.longest);
    plan.lengths.push_back(
        theirs.to_each != 0 ? lengths(r, parity)[rank()] : theirs.to_all_bytes);
  }
  check_same(call, signatures);
  plan.piece = piece_bytes(plan.to_each);
  return plan;
}

// The first round carries headers and first pieces. It is repeated when a rank
// came with a tensor in shared memory, see NOTE [In place].
ShmTransport::Plan ShmTransport::agree(
    const Call& call, const Signature& signature, const Offers& offers) {
  Header mine{};
  mine.signature = signature;
  mine.to_all_bytes = offers.to_all.size();
  mine.longest = offers.to_all.size();
  mine.to_each = offers.to_each.empty() ? 0 : 1;
  for (const Offer& offer : offers.to_each) {
    mine.longest = std::max<std::uint64_t>(mine.longest, offer.size());
  }
  for (;;) {
    const int parity = rounds_.parity();
    announce(mine, offers, parity);
    stage(offers, 0, parity);
    barrier(call);
    Plan plan = read_headers(call, parity);
    if (!plan.in_place) {
      return plan;
    }
  }
}

void ShmTransport::collect(
    const Plan& plan,
    const Offers& offers,
    std::size_t offset,
    int parity,
    std::vector<Offer>& parts) const {
  const int me = rank();
  for (int r = 0; r < size(); ++r) {
    // Our own bytes are read where they are.
    const Offer whole_mine =
        offers.to_each.empty() ? offers.to_all : offers.to_each[me];
    const std::size_t length = r == me ? whole_mine.size() : plan.lengths[r];
    const std::size_t left = length - std::min(offset, length);
    const std::byte* data =
        r == me ? whole_mine.data() + (length - left)
                : staging(r, parity) + (plan.to_each ? plan.piece * me : 0);
    parts[r] = {data, std::min(plan.piece, left)};
  }
}

void ShmTransport::deliver(
    const Call& call,
    const Signature& signature,
    const Offers& offers,
    const Consumer& consume) {
  const Plan plan = agree(call, signature, offers);
  std::vector<Offer> parts(size());
  int parity = plan.parity;
  std::size_t offset = 0;
  for (;;) {
    collect(plan, offers, offset, parity, parts);
    consume({offset, parts});
    offset += plan.piece;
    if (offset >= plan.longest) {
      return;
    }
    parity = rounds_.parity();
    stage(offers, offset, parity);
    barrier(call);
  }
}

// Rank 0 makes the memory and tells its address; everybody opens it; then
// everybody tells whether that worked, so that all ranks have it or none.
std::shared_ptr<std::byte> ShmTransport::allocate_shared(
    const Call& call, std::size_t bytes) {
  const std::size_t stride = round_up(std::max<std::size_t>(bytes, 1), kPage);
  Signature signature;
  signature.operation = kAllocate;
  signature.bytes = static_cast<std::int64_t>(bytes);
  std::shared_ptr<SharedMemory> memory;
  std::string address;
  std::string problem;
  try {
    if (rank() == 0) {
      memory = SharedMemory::create(stride * size());
      address = memory->address();
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  const auto mine = std::as_bytes(std::span(address));
  deliver(call, signature, {.to_all = mine}, [&](const Arrival& arrived) {
    if (rank() != 0) {
      const Offer text = arrived.parts[0];
      address.assign(reinterpret_cast<const char*>(text.data()), text.size());
    }
  });
  try {
    if (rank() != 0 && !address.empty()) {
      memory = SharedMemory::open(address);
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  std::string problems;
  const auto said = std::as_bytes(std::span(problem));
  deliver(call, signature, {.to_all = said}, [&](const Arrival& arrived) {
    for (int r = 0; r < size(); ++r) {
      const Offer text = arrived.parts[r];
      if (!text.empty()) {
        problems += str_cat(
            "\n  rank ",
            r,
            ": ",
            std::string_view(
                reinterpret_cast<const char*>(text.data()), text.size()));
      }
    }
  });
  if (!problems.empty()) {
    throw OutOfMemoryError(
        str_cat(
            "no ",
            bytes,
            " bytes of shared memory for each of ",
            size(),
            " ranks",
            problems),
        "free memory on this host");
  }
  regions_.push_back({++regions_made_, memory, memory->data(), stride});
  return {memory, memory->data() + stride * rank()};
}

const ShmTransport::Region* ShmTransport::find_region(
    std::span<const std::byte> data) {
  std::erase_if(
      regions_, [](const Region& region) { return region.memory.expired(); });
  for (const Region& region : regions_) {
    const std::byte* begin = region.base + region.stride * rank();
    if (data.data() >= begin &&
        data.data() + data.size() <= begin + region.stride) {
      return &region;
    }
  }
  return nullptr;
}

bool ShmTransport::work_in_place(
    const Call& call,
    const Signature& signature,
    std::span<std::byte> data,
    const std::function<void(std::span<std::byte* const>)>& work) {
  const Region* region = find_region(data);
  if (region == nullptr) {
    return false;
  }
  const auto begin = region->base + region->stride * rank();
  Header mine{};
  mine.signature = signature;
  mine.region = region->id;
  mine.region_offset = static_cast<std::uint64_t>(data.data() - begin);
  const int parity = rounds_.parity();
  announce(mine, {}, parity);
  barrier(call);
  read_headers(call, parity);
  std::vector<std::byte*> addresses;
  for (int r = 0; r < size(); ++r) {
    const Header& theirs = header(r, parity);
    if (theirs.region != mine.region ||
        theirs.region_offset != mine.region_offset) {
      return false;
    }
    addresses.push_back(region->base + region->stride * r + mine.region_offset);
  }
  work(addresses);
  barrier(call);
  return true;
}

void ShmTransport::send(
    int to, int tag, std::span<const std::byte> bytes, Completion done) {
  mailboxes_.send(to, tag, bytes, std::move(done));
}

void ShmTransport::receive(
    int from, int tag, std::span<std::byte> bytes, Completion done) {
  mailboxes_.receive(from, tag, bytes, std::move(done));
}

}  // namespace accelerate
