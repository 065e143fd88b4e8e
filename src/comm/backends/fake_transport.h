// SPDX-License-Identifier: Apache-2.0
// A transport between threads of one process, for tests.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace accelerate {

/// The state that the ranks of one fake group share.
class FakeNetwork;

/// Creates a fake network for `size` ranks and returns its name, which is valid
/// only in this process. The network exists until all ranks have joined
/// and left it.
std::string open_fake_network(int size);

/// The simplest `Transport`: copies every buffer and waits for all ranks in
/// every step. Tests compare other transports with `FakeTransport`, and use
/// `FakeTransport` when ranks need neither sockets nor shared memory.
class FakeTransport : public Transport {
 public:
  /// Joins the fake network `name`.
  ///
  /// Throws `UnsupportedError` if this process has no such network, for example
  /// because the ranks are in different processes.
  FakeTransport(const std::string& name, int rank, int size, WaitLimits limits);
  ~FakeTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void deliver(
      const Call& call,
      const Signature& signature,
      const SendBuffers& buffers,
      const Consumer& consume) override;

 private:
  std::shared_ptr<FakeNetwork> network_;
  const int rank_;
  const int size_;
  const WaitLimits limits_;
};

}  // namespace accelerate
