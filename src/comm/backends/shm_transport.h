// SPDX-License-Identifier: Apache-2.0
// Collectives of one host through shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/backends/shm_mailboxes.h"
#include "comm/rounds.h"
#include "comm/shared_memory.h"
#include "comm/transport.h"

namespace accelerate {

/// The `Transport` of ranks that share a host.
///
/// A delivery is a row of rounds. In each, a rank copies a piece of what it
/// offers into its own staging buffer and reads the pieces of the others where
/// they are; NOTE [Two buffers] in rounds.h says why one barrier a round is
/// enough. What ranks must agree on travels with the first piece, so the check
/// costs nothing.
///
/// NOTE [In place]: a rank whose tensor lives in shared memory stages nothing
/// in the first round and says so in its header. If all say the same, they
/// work on each other's memory directly. If only some do, all see it in the
/// headers, and the round is repeated with staging by everybody.
class ShmTransport : public Transport {
 public:
  /// Bytes of shared memory that `size` ranks need, a multiple of a page.
  static std::size_t bytes(int size);

  ShmTransport(
      std::shared_ptr<SharedMemory> memory,
      std::byte* where,
      int rank,
      int size,
      Patience patience);
  ~ShmTransport() override;

  int rank() const override { return rounds_.rank(); }
  int size() const override { return rounds_.size(); }

  void deliver(
      const Call& call,
      const Signature& signature,
      const Offers& offers,
      const Consumer& consume) override;
  void send(int to, int tag, std::span<const std::byte> bytes, Completion done)
      override;
  void receive(
      int from, int tag, std::span<std::byte> bytes, Completion done) override;
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
  std::size_t piece_bytes(bool to_each) const;

  void barrier(const Call& call);
  void announce(const Header& mine, const Offers& offers, int parity) const;
  void stage(const Offers& offers, std::size_t offset, int parity) const;
  Plan read_headers(const Call& call, int parity) const;
  Plan agree(
      const Call& call, const Signature& signature, const Offers& offers);
  void collect(
      const Plan& plan,
      const Offers& offers,
      std::size_t offset,
      int parity,
      std::vector<Offer>& parts) const;
  const Region* find_region(std::span<const std::byte> data);

  Rounds rounds_;
  const std::size_t piece_;  // bytes of one staging buffer
  std::byte* headers_;
  std::byte* staging_;
  Patience patience_;
  std::vector<Region> regions_;
  std::uint64_t regions_made_ = 0;
  ShmMailboxes mailboxes_;
};

}  // namespace accelerate
