// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives.h"

#include <algorithm>
#include <cstring>

#include <c10/core/ScalarType.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

using c10d::OpType;

// Up to here every rank adds up everything by itself, which needs one barrier
// a piece; beyond, each adds up its own share first. With two ranks the first
// way also moves fewer bytes.
constexpr int kFewRanks = 2;
constexpr std::size_t kFewBytes = 16 * 1024;

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

void put(Offer part, Bytes out, std::size_t offset) {
  const std::size_t room = out.size() - std::min(offset, out.size());
  const std::size_t n = std::min(part.size(), room);
  if (n > 0) {
    std::memmove(out.data() + offset, part.data(), n);
  }
}

// Reduces the pieces of all ranks into `out`, where the piece belongs.
void reduce_arrival(const Arrival& arrived, Bytes out, ReduceSpec spec) {
  std::vector<const std::byte*> rows;
  for (const Offer& part : arrived.parts) {
    rows.push_back(part.data());
  }
  std::byte* const here = out.data() + arrived.offset;
  const auto count = arrived.parts.front().size() / c10::elementSize(spec.type);
  reduce_rows(
      spec.kind, spec.type, {&here, 1}, rows, static_cast<std::int64_t>(count));
}

// The share of rank r when `data` is cut into one part per rank, at borders
// between cache lines.
Bytes share(Bytes data, int rank, int size) {
  constexpr std::size_t kLine = 64;
  const std::size_t lines = (data.size() + kLine - 1) / kLine;
  const auto border = [&](int r) {
    return std::min(data.size(), lines * r / size * kLine);
  };
  return data.subspan(border(rank), border(rank + 1) - border(rank));
}

std::vector<ConstBytes> shares(Bytes data, int size) {
  std::vector<ConstBytes> result;
  for (int r = 0; r < size; ++r) {
    result.emplace_back(share(data, r, size));
  }
  return result;
}

void reduce_share_in_place(
    std::span<std::byte* const> everybody,
    std::size_t bytes,
    int rank,
    ReduceSpec spec) {
  const int size = static_cast<int>(everybody.size());
  const Bytes mine = share({everybody[rank], bytes}, rank, size);
  const auto begin = mine.data() - everybody[rank];
  std::vector<std::byte*> outs;
  for (std::byte* base : everybody) {
    outs.push_back(base + begin);
  }
  const std::vector<const std::byte*> rows(outs.begin(), outs.end());
  reduce_rows(
      spec.kind,
      spec.type,
      outs,
      rows,
      static_cast<std::int64_t>(mine.size() / c10::elementSize(spec.type)));
}

}  // namespace

void all_reduce(
    Transport& transport, const Call& call, Bytes data, ReduceSpec spec) {
  const int rank = transport.rank();
  const int size = transport.size();
  const Signature signature =
      signature_of(OpType::ALLREDUCE, data.size(), spec);
  const bool done = transport.work_in_place(
      call, signature, data, [&](std::span<std::byte* const> everybody) {
        reduce_share_in_place(everybody, data.size(), rank, spec);
      });
  if (done) {
    return;
  }
  if (size <= kFewRanks || data.size() <= kFewBytes) {
    transport.deliver(
        call, signature, {.to_all = data}, [&](const Arrival& arrived) {
          reduce_arrival(arrived, data, spec);
        });
    return;
  }
  const Bytes mine = share(data, rank, size);
  const std::vector<ConstBytes> parts = shares(data, size);
  transport.deliver(
      call, signature, {.to_each = parts}, [&](const Arrival& arrived) {
        reduce_arrival(arrived, mine, spec);
      });
  transport.deliver(
      call, signature, {.to_all = mine}, [&](const Arrival& arrived) {
        for (int r = 0; r < size; ++r) {
          put(arrived.parts[r], share(data, r, size), arrived.offset);
        }
      });
}

void reduce(
    Transport& transport,
    const Call& call,
    Bytes data,
    ReduceSpec spec,
    int root) {
  transport.deliver(
      call,
      signature_of(OpType::REDUCE, data.size(), spec, root),
      {.to_all = data},
      [&](const Arrival& arrived) {
        if (transport.rank() == root) {
          reduce_arrival(arrived, data, spec);
        }
      });
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
      [&](const Arrival& arrived) { reduce_arrival(arrived, out, spec); });
}

void broadcast(Transport& transport, const Call& call, Bytes data, int root) {
  const bool mine = transport.rank() == root;
  transport.deliver(
      call,
      signature_of(OpType::BROADCAST, data.size(), root),
      {.to_all = mine ? Offer(data) : Offer()},
      [&](const Arrival& arrived) {
        if (!mine) {
          put(arrived.parts[root], data, arrived.offset);
        }
      });
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
      [&](const Arrival& arrived) {
        for (std::size_t r = 0; r < outs.size(); ++r) {
          put(arrived.parts[r], outs[r], arrived.offset);
        }
      });
}

void gather(
    Transport& transport,
    const Call& call,
    ConstBytes in,
    std::span<const Bytes> outs,
    int root) {
  transport.deliver(
      call,
      signature_of(OpType::GATHER, in.size(), root),
      {.to_all = in},
      [&](const Arrival& arrived) {
        for (std::size_t r = 0; r < outs.size(); ++r) {
          put(arrived.parts[r], outs[r], arrived.offset);
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
      [&](const Arrival& arrived) {
        put(arrived.parts[root], out, arrived.offset);
      });
}

void all_to_all(
    Transport& transport,
    const Call& call,
    std::span<const ConstBytes> ins,
    std::span<const Bytes> outs) {
  std::vector<std::size_t> got(outs.size());
  transport.deliver(
      call,
      signature_of(OpType::ALLTOALL, 0),
      {.to_each = ins},
      [&](const Arrival& arrived) {
        for (std::size_t r = 0; r < outs.size(); ++r) {
          put(arrived.parts[r], outs[r], arrived.offset);
          got[r] += arrived.parts[r].size();
        }
      });
  for (std::size_t r = 0; r < outs.size(); ++r) {
    if (got[r] != outs[r].size()) {
      throw MismatchError(
          str_cat(
              call.operation,
              " #",
              call.sequence,
              ": rank ",
              transport.rank(),
              " expects ",
              outs[r].size(),
              " bytes from rank ",
              r,
              ", which sends ",
              got[r]),
          "make the output splits of each rank equal to what the others send");
    }
  }
}

void barrier(Transport& transport, const Call& call) {
  transport.deliver(
      call, signature_of(OpType::BARRIER, 0), {}, [](const Arrival&) {});
}

}  // namespace accelerate
