// SPDX-License-Identifier: Apache-2.0
#include "comm/transport_collectives.h"

#include <algorithm>
#include <cstring>

#include <c10/core/ScalarType.h>

namespace accelerate {
namespace {

using c10d::OpType;

// Up to these limits, every rank reduces all data itself, with one barrier per
// chunk. Above the limits, each rank reduces only its own share of the data and
// then gathers the other shares. With two ranks in shared memory, the first
// algorithm also moves fewer bytes; over MPI, it took 8.1 ms instead of 6.7 ms
// for 32 MiB.
constexpr int kMaxDirectRanks = 2;
constexpr std::size_t kMaxDirectBytes = 16 * 1024;

Signature signature_of(OpType type, std::size_t bytes, int root = -1) {
  Signature signature;
  signature.operation = static_cast<std::uint8_t>(type);
  signature.root = root;
  signature.bytes = static_cast<std::int64_t>(bytes);
  return signature;
}

Signature signature_of(
    OpType type, std::size_t bytes, ReduceSpec spec, int root = -1) {
  Signature signature = signature_of(type, bytes, root);
  signature.type = static_cast<std::uint8_t>(spec.type);
  signature.kind = static_cast<std::uint8_t>(spec.kind);
  return signature;
}

void copy_part(SendBuffer part, Bytes out, std::size_t offset) {
  const std::size_t space = out.size() - std::min(offset, out.size());
  const std::size_t n = std::min(part.size(), space);
  if (n > 0) {
    std::memmove(out.data() + offset, part.data(), n);
  }
}

// Reduces the chunks of all ranks into `out`, at the chunk's offset.
void reduce_chunk(const ReceivedChunk& chunk, Bytes out, ReduceSpec spec) {
  std::vector<const std::byte*> rows;
  for (const SendBuffer& part : chunk.parts) {
    rows.push_back(part.data());
  }
  std::byte* const destination = out.data() + chunk.offset;
  const auto count = chunk.parts.front().size() / c10::elementSize(spec.type);
  reduce_rows(
      spec.kind,
      spec.type,
      {&destination, 1},
      rows,
      static_cast<std::int64_t>(count));
}

// The share of a rank when `data` is split into one part per rank, at cache
// line boundaries.
Bytes share(Bytes data, int rank, int size) {
  constexpr std::size_t kLine = 64;
  const std::size_t lines = (data.size() + kLine - 1) / kLine;
  const auto boundary = [&](int r) {
    return std::min(data.size(), lines * r / size * kLine);
  };
  return data.subspan(boundary(rank), boundary(rank + 1) - boundary(rank));
}

std::vector<ConstBytes> shares(Bytes data, int size) {
  std::vector<ConstBytes> result;
  for (int r = 0; r < size; ++r) {
    result.emplace_back(share(data, r, size));
  }
  return result;
}

// Sends each rank's share of `data` to all ranks.
void gather_shares(
    Transport& transport,
    const Call& call,
    const Signature& signature,
    Bytes data) {
  const int size = transport.size();
  transport.deliver(
      call,
      signature,
      {.to_all = share(data, transport.rank(), size)},
      [&](const ReceivedChunk& chunk) {
        for (int r = 0; r < size; ++r) {
          copy_part(chunk.parts[r], share(data, r, size), chunk.offset);
        }
      });
}

void reduce_share_in_place(
    std::span<std::byte* const> all_ranks,
    std::size_t bytes,
    int rank,
    ReduceSpec spec) {
  const int size = static_cast<int>(all_ranks.size());
  const Bytes own_share = share({all_ranks[rank], bytes}, rank, size);
  const auto begin = own_share.data() - all_ranks[rank];
  std::vector<std::byte*> outs;
  for (std::byte* base : all_ranks) {
    outs.push_back(base + begin);
  }
  const std::vector<const std::byte*> rows(outs.begin(), outs.end());
  reduce_rows(
      spec.kind,
      spec.type,
      outs,
      rows,
      static_cast<std::int64_t>(
          own_share.size() / c10::elementSize(spec.type)));
}

}  // namespace

void all_reduce(
    Transport& transport, const Call& call, Bytes data, ReduceSpec spec) {
  const int rank = transport.rank();
  const int size = transport.size();
  const Signature signature =
      signature_of(OpType::ALLREDUCE, data.size(), spec);
  const bool done = transport.work_in_place(
      call, signature, data, [&](std::span<std::byte* const> all_ranks) {
        reduce_share_in_place(all_ranks, data.size(), rank, spec);
      });
  if (done) {
    return;
  }
  const bool is_direct =
      transport.has_shared_memory() && size <= kMaxDirectRanks;
  if (is_direct || data.size() <= kMaxDirectBytes) {
    transport.deliver(
        call, signature, {.to_all = data}, [&](const ReceivedChunk& chunk) {
          reduce_chunk(chunk, data, spec);
        });
    return;
  }
  const Bytes own_share = share(data, rank, size);
  const std::vector<ConstBytes> parts = shares(data, size);
  transport.deliver(
      call, signature, {.to_each = parts}, [&](const ReceivedChunk& chunk) {
        reduce_chunk(chunk, own_share, spec);
      });
  gather_shares(transport, call, signature, data);
}

void reduce_scatter(
    Transport& transport,
    const Call& call,
    std::span<const ConstBytes> ins,
    Bytes out,
    ReduceSpec spec) {
  transport.deliver(
      call,
      signature_of(OpType::REDUCE_SCATTER, out.size(), spec),
      {.to_each = ins},
      [&](const ReceivedChunk& chunk) { reduce_chunk(chunk, out, spec); });
}

void broadcast(Transport& transport, const Call& call, Bytes data, int root) {
  const int size = transport.size();
  const bool is_root = transport.rank() == root;
  const Signature signature =
      signature_of(OpType::BROADCAST, data.size(), root);
  if (transport.has_shared_memory() || size <= kMaxDirectRanks ||
      data.size() <= kMaxDirectBytes) {
    transport.deliver(
        call,
        signature,
        {.to_all = is_root ? SendBuffer(data) : SendBuffer()},
        [&](const ReceivedChunk& chunk) {
          if (!is_root) {
            copy_part(chunk.parts[root], data, chunk.offset);
          }
        });
    return;
  }
  // The root sends each byte only twice, regardless of the number of ranks.
  const Bytes own_share = share(data, transport.rank(), size);
  const std::vector<ConstBytes> parts =
      is_root ? shares(data, size) : std::vector<ConstBytes>();
  transport.deliver(
      call, signature, {.to_each = parts}, [&](const ReceivedChunk& chunk) {
        copy_part(chunk.parts[root], own_share, chunk.offset);
      });
  gather_shares(transport, call, signature, data);
}

void all_gather(
    Transport& transport,
    const Call& call,
    ConstBytes in,
    std::span<const Bytes> outs) {
  transport.deliver(
      call,
      signature_of(OpType::ALLGATHER, in.size()),
      {.to_all = in},
      [&](const ReceivedChunk& chunk) {
        for (std::size_t r = 0; r < outs.size(); ++r) {
          copy_part(chunk.parts[r], outs[r], chunk.offset);
        }
      });
}

void scatter(
    Transport& transport,
    const Call& call,
    std::span<const ConstBytes> ins,
    Bytes out,
    int root) {
  transport.deliver(
      call,
      signature_of(OpType::SCATTER, out.size(), root),
      {.to_each = ins},
      [&](const ReceivedChunk& chunk) {
        copy_part(chunk.parts[root], out, chunk.offset);
      });
}

void barrier(Transport& transport, const Call& call) {
  transport.deliver(
      call, signature_of(OpType::BARRIER, 0), {}, [](const ReceivedChunk&) {});
}

}  // namespace accelerate
