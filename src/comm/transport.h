// SPDX-License-Identifier: Apache-2.0
// What moves bytes between ranks, below the collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/patience.h"

namespace accelerate {

/// Stands in `Signature::type` for "no reduction".
constexpr std::uint8_t kNoType = 255;

/// What ranks must agree on before bytes move; compared byte for byte.
struct Signature {
  std::uint8_t operation = 0;   ///< `c10d::OpType`
  std::uint8_t type = kNoType;  ///< `c10::ScalarType` of a reduction
  std::uint8_t kind = 0;        ///< `ReduceKind` of a reduction
  std::uint8_t unused = 0;
  std::int32_t root = -1;
  std::int64_t bytes = 0;  ///< of one rank's tensor; 0 where ranks may differ

  bool operator==(const Signature&) const = default;
};

/// Bytes that a rank offers to another one.
using Offer = std::span<const std::byte>;

/// What a rank offers in one delivery: the same bytes to everybody, or other
/// bytes to each rank (one entry per rank).
struct Offers {
  Offer to_all = {};
  std::span<const Offer> to_each = {};
};

/// What has arrived: `parts[r]` is the next piece of what rank r offered to
/// this rank, starting `offset` bytes into it; empty when r has no more.
struct Arrival {
  std::size_t offset = 0;
  std::span<const Offer> parts;
};
using Consumer = std::function<void(const Arrival&)>;

/// Where a point-to-point message ends: called once, with the error that
/// stopped it or null, and the rank of the other side.
using Completion = std::function<void(std::exception_ptr, int)>;

constexpr int kAnyRank = -1;

/// Moves bytes between the ranks of one group.
///
/// Thread safety: `deliver`, `work_in_place` and `allocate_shared` by one
/// thread at a time; the point-to-point functions from any thread.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Offers bytes to the others and hands theirs to `consume`, in pieces.
  /// `consume` may overwrite what this rank offered, up to the end of the
  /// piece that it is given.
  ///
  /// Collective. Throws `MismatchError` on every rank, before anything is
  /// consumed, when the signatures differ; `DistributedError` when a rank is
  /// gone or late.
  virtual void deliver(
      const Call& call,
      const Signature& signature,
      const Offers& offers,
      const Consumer& consume) = 0;

  /// Sends `bytes`, which stay valid until `done` is called.
  virtual void send(
      int to, int tag, std::span<const std::byte> bytes, Completion done) = 0;

  /// Receives into `bytes` from a rank or from `kAnyRank`.
  virtual void receive(
      int from, int tag, std::span<std::byte> bytes, Completion done) = 0;

  virtual bool has_shared_memory() const { return false; }

  /// Returns this rank's block of memory that every rank can read and write;
  /// only where `has_shared_memory()`.
  ///
  /// Collective: each rank asks for the same number of bytes. Throws
  /// `OutOfMemoryError` on every rank if one of them cannot have it.
  virtual std::shared_ptr<std::byte> allocate_shared(
      const Call& call, std::size_t bytes);

  /// Lets every rank work on every rank's `data` directly, if it lies at the
  /// same place of blocks from one `allocate_shared` call.
  ///
  /// Collective. Waits for all ranks, calls `work` with the address of the
  /// data of each rank, waits for all again and returns true; or returns false
  /// on every rank without having called it. Throws as `deliver` does.
  virtual bool work_in_place(
      const Call& call,
      const Signature& signature,
      std::span<std::byte> data,
      const std::function<void(std::span<std::byte* const>)>& work);
};

/// Throws `MismatchError` with a table of what each rank asked for, unless
/// all signatures are equal.
void check_same(const Call& call, std::span<const Signature> signatures);

}  // namespace accelerate
