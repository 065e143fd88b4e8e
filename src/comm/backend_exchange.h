// SPDX-License-Identifier: Apache-2.0
// Exchanges short messages through a backend, for ranks on several machines.
#pragma once

#include <functional>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/bounded_call.h"
#include "comm/exchange.h"
#include "comm/rendezvous.h"

namespace accelerate {

/// Waits for an operation on a backend whose ranks may be on any machine.
///
/// Polls ten times a second. A waiting rank publishes its current call in the
/// store, so that other ranks can detect which ranks are missing. Calls to the
/// store have a timeout, because the process that serves the store may have
/// died.
class BackendWait {
 public:
  /// `memory` shows which ranks are alive; null if the ranks share no memory.
  BackendWait(RankContext context, std::shared_ptr<SharedMemory> memory);

  /// Returns when `work` has finished. If ranks exit or time out, throws a
  /// `DistributedError` that names these ranks.
  void operator()(
      const c10::intrusive_ptr<c10d::Work>& work,
      const Call& call,
      const WaitLimits& limits) const;

  /// Throws `DistributedError` for a failed operation. The error names the
  /// ranks that exited. If no rank is known to have exited, the error contains
  /// `reason` and names the ranks that did not respond.
  [[noreturn]] void rethrow(
      const Call& call,
      const WaitLimits& limits,
      const std::string& reason) const;

 private:
  void wait_until_done(
      const c10::intrusive_ptr<c10d::Work>& work,
      const Call& call,
      const WaitLimits& limits) const;
  std::vector<int> exited_ranks() const;
  // Returns the ranks that have not reported a lost connection. Must be called
  // only after this rank has lost a connection itself.
  std::vector<int> find_unresponsive_ranks() const;
  void find_late_ranks(BoundedCall& store, const Call& call, Wait& wait) const;

  RankContext context_;
  std::shared_ptr<SharedMemory> memory_;
};

/// An `Exchange` for ranks that share only a backend, not memory.
class BackendExchange : public Exchange {
 public:
  BackendExchange(c10::intrusive_ptr<c10d::Backend> backend, BackendWait wait);

  std::vector<std::string> all_gather(
      const std::string& message,
      const Call& call,
      const WaitLimits& limits) override;

 private:
  c10::intrusive_ptr<c10d::Work> start_all_gather(
      at::Tensor& out,
      at::Tensor& in,
      const Call& call,
      const WaitLimits& limits);
  std::vector<std::string> all_gather_fixed(
      const std::string& message,
      std::size_t bytes,
      const Call& call,
      const WaitLimits& limits);

  c10::intrusive_ptr<c10d::Backend> backend_;
  BackendWait wait_;
};

}  // namespace accelerate
