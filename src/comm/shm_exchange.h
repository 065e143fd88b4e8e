// SPDX-License-Identifier: Apache-2.0
// Exchanges short messages through shared memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "comm/exchange.h"
#include "comm/shared_memory.h"
#include "comm/shm_barrier.h"

namespace accelerate {

/// An `Exchange` for ranks on one machine.
class ShmExchange : public Exchange {
 public:
  /// Returns how many bytes of shared memory a group of `size` ranks needs,
  /// rounded up to whole pages.
  static std::size_t bytes(int size);

  ShmExchange(
      std::shared_ptr<SharedMemory> memory,
      std::byte* base,
      int rank,
      int size);

  std::vector<std::string> all_gather(
      const std::string& message,
      const Call& call,
      const WaitLimits& limits) override;

  void post(const std::string& message) override;
  bool all_posted() const override { return barrier_.all_arrived(); }
  std::vector<std::string> collect(
      const Call& call, const WaitLimits& limits) override;

 private:
  std::span<std::byte> buffer(int rank, int parity) const;
  void write(std::size_t round);
  bool read(std::vector<std::string>& messages) const;

  ShmBarrier barrier_;
  std::byte* buffers_;
  int parity_ = 0;  // parity of the last written round
};

}  // namespace accelerate
