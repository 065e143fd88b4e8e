// SPDX-License-Identifier: Apache-2.0
// Messages through a backend, for ranks on several hosts.
#pragma once

#include <functional>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/bounded_call.h"
#include "comm/exchange.h"
#include "comm/rendezvous.h"

namespace accelerate {

/// Waits for an operation of a backend whose ranks may be anywhere.
///
/// Looks ten times a second whether it is done; a rank that waits for long
/// says so in the store, which is how the others learn who is missing. The
/// store may be part of what is missing: it gets a slice of time to answer.
class BackendWait {
 public:
  /// `memory` tells who is alive, where all ranks are on one host. `plugin` is
  /// the backend if it is one of ours that breaks when a timed wait runs out:
  /// its operations are watched from outside, and ended when a wait has failed.
  BackendWait(
      Seat seat,
      std::shared_ptr<SharedMemory> memory,
      c10::intrusive_ptr<c10d::Backend> plugin = {});

  /// Whether operations must run on a thread of the backend's, so that this
  /// one can watch.
  bool needs_async() const { return plugin_.defined(); }

  /// Throws `DistributedError` that names ranks when one is gone or late.
  void operator()(
      const c10::intrusive_ptr<c10d::Work>& work,
      const Call& call,
      const Patience& patience) const;

  /// Throws `DistributedError` for an operation that broke: names the ranks
  /// that are gone, or says `why` where all of them live.
  [[noreturn]] void rethrow(
      const Call& call, const Patience& patience, const std::string& why) const;

 private:
  void watch(
      const c10::intrusive_ptr<c10d::Work>& work,
      const Call& call,
      const Patience& patience) const;
  std::vector<int> gone() const;
  // Those that lost no connection themselves, after one was lost.
  std::vector<int> silent_ranks() const;
  void ask_who_is_late(BoundedCall& store, const Call& call, Wait& wait) const;

  Seat seat_;
  std::shared_ptr<SharedMemory> memory_;
  c10::intrusive_ptr<c10d::Backend> plugin_;
};

/// The `Exchange` of ranks that only share a backend.
class BackendExchange : public Exchange {
 public:
  BackendExchange(c10::intrusive_ptr<c10d::Backend> backend, BackendWait wait);

  std::vector<std::string> all(
      const std::string& mine,
      const Call& call,
      const Patience& patience) override;

 private:
  std::vector<std::string> fixed(
      const std::string& mine,
      std::size_t bytes,
      const Call& call,
      const Patience& patience);

  c10::intrusive_ptr<c10d::Backend> backend_;
  BackendWait wait_;
};

}  // namespace accelerate
