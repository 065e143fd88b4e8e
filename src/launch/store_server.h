// SPDX-License-Identifier: Apache-2.0
// The launcher's key-value store: how workers find each other, and how the
// launcher knows who is alive and who waits for what.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/socket.h"
#include "launch/store_core.h"

namespace accelerate {

struct StoreServerOptions {
  std::vector<Endpoint> endpoints;
  std::string secret;
  /// A connection must prove the secret within this time.
  std::chrono::milliseconds hello_timeout{10000};
  /// Connections that have not proved it yet; more have to wait.
  std::size_t max_strangers = 64;
  /// Machines that come before `on_exchange` wait for it.
  bool expects_machines = false;
};

/// Serves on its own thread from construction to destruction.
///
/// Thread-safe. Waiting requests end at their own limit, or at once when the
/// job is aborted.
class StoreServer {
 public:
  /// The answer is sent at once when there is one, else `answer` sends it
  /// later.
  using Exchange = StoreExchange;
  using ExchangeHandler =
      std::function<std::optional<std::string>(const Exchange&)>;
  using LossHandler = std::function<void(std::uint64_t client)>;
  using RefusalHandler =
      std::function<void(const std::string& address, const std::string& why)>;

  /// Throws `IoError` when an endpoint cannot be opened.
  explicit StoreServer(const StoreServerOptions& options);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();

  /// Called on the server's thread.
  void on_exchange(ExchangeHandler handler);
  void on_machine_lost(LossHandler handler);
  void on_refusal(RefusalHandler handler);
  void answer(std::uint64_t client, std::string_view payload);

  /// Where the i-th endpoint listens, with the port it was given.
  Endpoint endpoint(std::size_t index) const;

  /// Forgets every key and serves only clients that know this number.
  void start_generation(std::uint32_t generation);
  /// Ends every wait, now and later, with `reason`.
  void abort(const std::string& reason);
  std::vector<RankStatus> status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
