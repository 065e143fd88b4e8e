// SPDX-License-Identifier: Apache-2.0
// Messages through shared memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "comm/exchange.h"
#include "comm/rounds.h"
#include "comm/shared_memory.h"

namespace accelerate {

/// The `Exchange` of ranks on one host.
class ShmExchange : public Exchange {
 public:
  /// Bytes of shared memory that `size` ranks need, a multiple of a page.
  static std::size_t bytes(int size);

  ShmExchange(
      std::shared_ptr<SharedMemory> memory,
      std::byte* where,
      int rank,
      int size);

  std::vector<std::string> all(
      const std::string& mine,
      const Call& call,
      const Patience& patience) override;

  void post(const std::string& mine) override;
  bool all_posted() const override { return rounds_.all_arrived(); }
  std::vector<std::string> collect(
      const Call& call, const Patience& patience) override;

 private:
  std::span<std::byte> buffer(int rank, int parity) const;
  void write(std::size_t round);
  bool read(std::vector<std::string>& messages) const;

  Rounds rounds_;
  std::byte* buffers_;
  int parity_ = 0;  // Of the round that was written last.
};

}  // namespace accelerate
