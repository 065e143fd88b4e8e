// SPDX-License-Identifier: Apache-2.0
// Moves bytes between ranks; the basis of the collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "accelerate/export.h"
#include "comm/wait_limits.h"

namespace accelerate {

/// The value of `Signature::type` for a call that is not a reduction.
constexpr std::uint8_t kNoType = 255;

/// The properties of a call that must be the same on all ranks.
struct Signature {
  std::uint8_t operation = 0;   ///< `c10d::OpType`
  std::uint8_t type = kNoType;  ///< `c10::ScalarType` of a reduction
  std::uint8_t kind = 0;        ///< `ReduceKind` of a reduction
  std::uint8_t unused = 0;
  std::int32_t root = -1;
  std::int64_t bytes = 0;  ///< size of one rank's tensor; 0 if sizes may vary

  bool operator==(const Signature&) const = default;
};

/// Bytes that a rank sends.
using SendBuffer = std::span<const std::byte>;

/// What a rank sends in one delivery: either the same bytes to all ranks, or
/// different bytes to each rank (one entry per rank).
struct SendBuffers {
  SendBuffer to_all = {};
  std::span<const SendBuffer> to_each = {};
};

/// Received data: `parts[r]` is the next chunk that rank r sent to this rank.
/// The chunk starts at byte `offset` of the send buffer of rank r, and is empty
/// when rank r has no more data.
struct ReceivedChunk {
  std::size_t offset = 0;
  std::span<const SendBuffer> parts;
};
using Consumer = std::function<void(const ReceivedChunk&)>;

/// Moves bytes between the ranks of one process group.
///
/// Thread safety: use from only one thread at a time.
class ACCELERATE_API Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends bytes to the other ranks and passes received bytes to `consume`.
  /// `consume` may overwrite this rank's send buffer up to the end of the chunk
  /// that was passed to it.
  ///
  /// Collective. If the signatures differ, throws `MismatchError` on every rank
  /// before `consume` is called. Throws `DistributedError` when a rank has
  /// exited or times out.
  virtual void deliver(
      const Call& call,
      const Signature& signature,
      const SendBuffers& buffers,
      const Consumer& consume) = 0;

  virtual bool has_shared_memory() const { return false; }

  /// Allocates one block of `bytes` bytes for each rank and returns this rank's
  /// block. Every rank can read and write all blocks. May be called only if
  /// `has_shared_memory()` returns true.
  ///
  /// Collective: each rank must pass the same number of bytes. Throws
  /// `OutOfMemoryError` on every rank if the allocation fails on any rank.
  virtual std::shared_ptr<std::byte> allocate_shared(
      const Call& call, std::size_t bytes);

  /// Lets every rank work directly on the `data` of all ranks. This is possible
  /// only if the `data` of all ranks is at the same offset in blocks from the
  /// same `allocate_shared` call.
  ///
  /// Collective. Waits for all ranks, calls `work` with the data addresses of
  /// all ranks, waits for all ranks again and returns true. If working in place
  /// is not possible, returns false on every rank without calling `work`.
  /// Throws the same errors as `deliver`.
  virtual bool work_in_place(
      const Call& call,
      const Signature& signature,
      std::span<std::byte> data,
      const std::function<void(std::span<std::byte* const>)>& work);
};

/// Throws `MismatchError` with a table of all signatures unless all signatures
/// are equal.
ACCELERATE_API void check_same(
    const Call& call, std::span<const Signature> signatures);

}  // namespace accelerate
