// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process, with nothing but a mutex between them.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace accelerate {

/// Where the ranks of one fake group meet.
class FakeHub;

/// Makes a hub for `size` ranks and returns a name that is valid in this
/// process only; the hub lives until the first rank has entered and all have
/// left.
std::string open_fake_hub(int size);

/// The plainest `Transport`: every offer is copied, every step waits for
/// everybody. Tests compare the others with it, and logic that needs ranks
/// runs over it without sockets or shared memory.
class FakeTransport : public Transport {
 public:
  /// Enters the hub called `name`.
  ///
  /// Throws `UnsupportedError` when this process has no such hub, because the
  /// ranks are in different processes.
  FakeTransport(const std::string& name, int rank, int size, Patience patience);
  ~FakeTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void deliver(
      const Call& call,
      const Signature& signature,
      const Offers& offers,
      const Consumer& consume) override;
  void send(int to, int tag, std::span<const std::byte> bytes, Completion done)
      override;
  void receive(
      int from, int tag, std::span<std::byte> bytes, Completion done) override;

 private:
  std::shared_ptr<FakeHub> hub_;
  const int rank_;
  const int size_;
  const Patience patience_;
};

}  // namespace accelerate
