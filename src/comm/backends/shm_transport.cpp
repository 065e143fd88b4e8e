// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/run_collectively.h"

namespace accelerate {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHeaderBytes = 64;
// The operation of `allocate_shared`, which is not a `c10d::OpType`.
constexpr std::uint8_t kAllocate = 200;

// Chunks are small enough to be in the L2 cache when the other ranks read them.
// Smaller chunks need more barriers: an exchange of 32 MiB between two
// processes took 18.7 ms with chunks of 256 KiB and 5.3 ms with chunks of 1
// MiB. With many ranks, chunks are smaller, so that the staging buffers of a
// process group take at most 64 MiB.
std::size_t chunk_bytes_for(int size) {
  const std::size_t share = (std::size_t{32} << 20) / size / 4096 * 4096;
  return std::clamp<std::size_t>(share, 64 << 10, 1 << 20);
}

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// The chunk of `buffer` that starts at `offset`.
SendBuffer chunk_of(
    SendBuffer buffer, std::size_t offset, std::size_t max_bytes) {
  const std::size_t begin = std::min(offset, buffer.size());
  return buffer.subspan(begin, std::min(max_bytes, buffer.size() - begin));
}

}  // namespace

// Describes a rank's part in a delivery; sent once per delivery.
struct ShmTransport::Header {
  Signature signature;
  std::uint64_t to_all_bytes;
  std::uint64_t longest;  // length of the longest send buffer
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

// Combines the headers of all ranks.
struct ShmTransport::Plan {
  int parity = 0;  // of the round with the headers
  bool to_each = false;
  bool in_place = false;  // some rank's tensor is in shared memory
  std::size_t chunk = 0;
  std::size_t longest = 0;
  std::vector<std::size_t> lengths;  // bytes from each rank to this rank
};

// Layout: barrier · headers [rank][parity], each followed by the lengths of the
// rank's send buffers · staging [rank][parity].
namespace {

std::size_t header_stride(int size) {
  return round_up(kHeaderBytes + sizeof(std::uint64_t) * size, kAlign);
}

std::size_t headers_bytes(int size) {
  return whole_pages(2 * header_stride(size) * size);
}

}  // namespace

std::size_t ShmTransport::bytes(int size) {
  return ShmBarrier::bytes(size) + headers_bytes(size) +
         2 * chunk_bytes_for(size) * size;
}

ShmTransport::ShmTransport(
    std::shared_ptr<SharedMemory> memory,
    std::byte* base,
    int rank,
    int size,
    WaitLimits limits)
    : barrier_(memory, base, rank, size),
      chunk_bytes_(chunk_bytes_for(size)),
      headers_(base + ShmBarrier::bytes(size)),
      staging_(headers_ + headers_bytes(size)),
      limits_(std::move(limits)) {
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
  return staging_ + chunk_bytes_ * (2 * rank + parity);
}

std::size_t ShmTransport::usable_chunk_bytes(bool to_each) const {
  return to_each ? chunk_bytes_ / size() / kAlign * kAlign : chunk_bytes_;
}

void ShmTransport::barrier(const Call& call) {
  barrier_.arrive();
  barrier_.wait(call, limits_);
}

void ShmTransport::stage(
    const SendBuffers& buffers, std::size_t offset, int parity) const {
  std::byte* out = staging(rank(), parity);
  if (buffers.to_each.empty()) {
    const SendBuffer chunk = chunk_of(buffers.to_all, offset, chunk_bytes_);
    std::copy(chunk.begin(), chunk.end(), out);
    return;
  }
  const std::size_t stride = usable_chunk_bytes(true);
  for (int to = 0; to < size(); ++to) {
    if (to != rank()) {
      const SendBuffer chunk = chunk_of(buffers.to_each[to], offset, stride);
      std::copy(chunk.begin(), chunk.end(), out + stride * to);
    }
  }
}

void ShmTransport::write_header(
    const Header& own_header, const SendBuffers& buffers, int parity) const {
  header(rank(), parity) = own_header;
  std::uint64_t* to = lengths(rank(), parity);
  for (const SendBuffer& buffer : buffers.to_each) {
    *to++ = buffer.size();
  }
}

ShmTransport::Plan ShmTransport::read_headers(
    const Call& call, int parity) const {
  Plan plan;
  plan.parity = parity;
  std::vector<Signature> signatures;
  for (int r = 0; r < size(); ++r) {
    const Header& received = header(r, parity);
    signatures.push_back(received.signature);
    plan.in_place = plan.in_place || received.region != 0;
    plan.to_each = plan.to_each || received.to_each != 0;
    plan.longest = std::max<std::size_t>(plan.longest, received.longest);
    plan.lengths.push_back(
        received.to_each != 0 ? lengths(r, parity)[rank()]
                              : received.to_all_bytes);
  }
  check_same(call, signatures);
  plan.chunk = usable_chunk_bytes(plan.to_each);
  return plan;
}

// The first round transfers the headers and the first chunks. It is repeated if
// the tensor of some rank is in shared memory, see NOTE [In place].
ShmTransport::Plan ShmTransport::agree(
    const Call& call, const Signature& signature, const SendBuffers& buffers) {
  Header own_header{};
  own_header.signature = signature;
  own_header.to_all_bytes = buffers.to_all.size();
  own_header.longest = buffers.to_all.size();
  own_header.to_each = buffers.to_each.empty() ? 0 : 1;
  for (const SendBuffer& buffer : buffers.to_each) {
    own_header.longest =
        std::max<std::uint64_t>(own_header.longest, buffer.size());
  }
  for (;;) {
    const int parity = barrier_.parity();
    write_header(own_header, buffers, parity);
    stage(buffers, 0, parity);
    barrier(call);
    Plan plan = read_headers(call, parity);
    if (!plan.in_place) {
      return plan;
    }
  }
}

void ShmTransport::collect(
    const Plan& plan,
    const SendBuffers& buffers,
    std::size_t offset,
    int parity,
    std::vector<SendBuffer>& parts) const {
  const int own_rank = rank();
  for (int r = 0; r < size(); ++r) {
    // This rank reads its own bytes in place.
    const SendBuffer own_buffer =
        buffers.to_each.empty() ? buffers.to_all : buffers.to_each[own_rank];
    const std::size_t length =
        r == own_rank ? own_buffer.size() : plan.lengths[r];
    const std::size_t left = length - std::min(offset, length);
    const std::byte* data =
        r == own_rank
            ? own_buffer.data() + (length - left)
            : staging(r, parity) + (plan.to_each ? plan.chunk * own_rank : 0);
    parts[r] = {data, std::min(plan.chunk, left)};
  }
}

void ShmTransport::deliver(
    const Call& call,
    const Signature& signature,
    const SendBuffers& buffers,
    const Consumer& consume) {
  const Plan plan = agree(call, signature, buffers);
  std::vector<SendBuffer> parts(size());
  int parity = plan.parity;
  std::size_t offset = 0;
  for (;;) {
    collect(plan, buffers, offset, parity, parts);
    consume({offset, parts});
    offset += plan.chunk;
    if (offset >= plan.longest) {
      return;
    }
    parity = barrier_.parity();
    stage(buffers, offset, parity);
    barrier(call);
  }
}

std::vector<std::string> ShmTransport::gather_texts(
    const Call& call, const Signature& signature, const std::string& text) {
  std::vector<std::string> texts(size());
  deliver(
      call,
      signature,
      {.to_all = std::as_bytes(std::span(text))},
      [&](const ReceivedChunk& chunk) {
        for (int r = 0; r < size(); ++r) {
          const SendBuffer part = chunk.parts[r];
          texts[r].append(
              reinterpret_cast<const char*>(part.data()), part.size());
        }
      });
  return texts;
}

// Rank 0 creates the memory and sends its address. Then all ranks open the
// memory. Both steps succeed on all ranks or fail on all ranks.
std::shared_ptr<std::byte> ShmTransport::allocate_shared(
    const Call& call, std::size_t bytes) {
  const std::size_t stride = whole_pages(std::max<std::size_t>(bytes, 1));
  Signature signature;
  signature.operation = kAllocate;
  signature.bytes = static_cast<std::int64_t>(bytes);
  const auto gather = [&](const std::string& text) {
    return gather_texts(call, signature, text);
  };
  const auto check = [&](const RankOutcomes& outcomes) {
    if (!outcomes.all_succeeded()) {
      throw OutOfMemoryError(
          str_cat(
              "cannot allocate ",
              bytes,
              " bytes of shared memory for each of ",
              size(),
              " ranks",
              outcomes.table()),
          "free some memory on this machine");
    }
  };
  std::shared_ptr<SharedMemory> memory;
  const RankOutcomes created = try_collectively(gather, [&]() -> Json {
    if (rank() != 0) {
      return {};
    }
    memory = SharedMemory::create(stride * size());
    return memory->address();
  });
  check(created);
  check(try_collectively(gather, [&] {
    if (rank() != 0) {
      memory = SharedMemory::open(created.ranks.front().value.as_string());
    }
    return Json();
  }));
  regions_.push_back({++regions_created_, memory, memory->data(), stride});
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
  Header own_header{};
  own_header.signature = signature;
  own_header.region = region->id;
  own_header.region_offset = static_cast<std::uint64_t>(data.data() - begin);
  const int parity = barrier_.parity();
  write_header(own_header, {}, parity);
  barrier(call);
  read_headers(call, parity);
  std::vector<std::byte*> addresses;
  for (int r = 0; r < size(); ++r) {
    const Header& received = header(r, parity);
    if (received.region != own_header.region ||
        received.region_offset != own_header.region_offset) {
      return false;
    }
    addresses.push_back(
        region->base + region->stride * r + own_header.region_offset);
  }
  work(addresses);
  barrier(call);
  return true;
}

}  // namespace accelerate
