// SPDX-License-Identifier: Apache-2.0
// Moves bytes between ranks on one machine through shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/shared_memory.h"
#include "comm/shm_barrier.h"
#include "comm/transport.h"

namespace accelerate {

/// A `Transport` for ranks on one machine.
///
/// A delivery takes several rounds. In each round a rank copies a chunk of its
/// send buffer into its staging buffer and reads the chunks of the other ranks
/// in place; NOTE [Two buffers] in shm_barrier.h explains why one barrier per
/// round is enough. The signatures are sent with the first chunk, so checking
/// the signatures needs no extra round.
///
/// NOTE [In place]: a rank whose tensor is in shared memory copies nothing into
/// its staging buffer in the first round and sets a flag in its header. If all
/// ranks set the flag, they work directly on each other's memory. If only some
/// ranks set the flag, all ranks detect this in the headers and repeat the
/// round with staging.
class ShmTransport : public Transport {
 public:
  /// Returns how many bytes of shared memory a group of `size` ranks needs,
  /// rounded up to whole pages.
  static std::size_t bytes(int size);

  ShmTransport(
      std::shared_ptr<SharedMemory> memory,
      std::byte* base,
      int rank,
      int size,
      WaitLimits limits);
  ~ShmTransport() override;

  int rank() const override { return barrier_.rank(); }
  int size() const override { return barrier_.size(); }

  void deliver(
      const Call& call,
      const Signature& signature,
      const SendBuffers& buffers,
      const Consumer& consume) override;
  bool has_shared_memory() const override { return true; }
  std::shared_ptr<std::byte> allocate_shared(
      const Call& call, std::size_t bytes) override;
  bool work_in_place(
      const Call& call,
      const Signature& signature,
      std::span<std::byte> data,
      const std::function<void(std::span<std::byte* const>)>& work) override;

 private:
  struct Header;
  struct Region;
  struct Plan;

  Header& header(int rank, int parity) const;
  std::uint64_t* lengths(int rank, int parity) const;
  std::byte* staging(int rank, int parity) const;
  std::size_t usable_chunk_bytes(bool to_each) const;

  void barrier(const Call& call);
  void write_header(
      const Header& own_header, const SendBuffers& buffers, int parity) const;
  void stage(const SendBuffers& buffers, std::size_t offset, int parity) const;
  Plan read_headers(const Call& call, int parity) const;
  Plan agree(
      const Call& call, const Signature& signature, const SendBuffers& buffers);
  void collect(
      const Plan& plan,
      const SendBuffers& buffers,
      std::size_t offset,
      int parity,
      std::vector<SendBuffer>& parts) const;
  /// Returns the texts of all ranks. Collective.
  std::vector<std::string> gather_texts(
      const Call& call, const Signature& signature, const std::string& text);
  const Region* find_region(std::span<const std::byte> data);

  ShmBarrier barrier_;
  const std::size_t chunk_bytes_;  // bytes of one staging buffer
  std::byte* headers_;
  std::byte* staging_;
  WaitLimits limits_;
  std::vector<Region> regions_;
  std::uint64_t regions_created_ = 0;
};

}  // namespace accelerate
