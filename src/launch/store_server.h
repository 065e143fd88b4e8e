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
#include "base/store_protocol.h"

namespace accelerate {

struct StoreServerOptions {
  std::vector<Endpoint> endpoints;
  std::string secret;
  /// A connection must prove the secret within this time.
  std::chrono::milliseconds hello_timeout{10000};
  /// Connections that have not proved it yet; more have to wait.
  std::size_t max_strangers = 64;
};

/// What the store knows about one rank of the current generation.
struct RankStatus {
  std::uint32_t rank = 0;
  bool is_connected = false;
  std::string status;       ///< What the rank said it is doing.
  std::string waiting_for;  ///< The keys it waits for, if it does.
  double waiting_seconds = 0;
  std::string failure;     ///< The exception it reported.
  double failure_age = 0;  ///< Seconds since then.
};

/// Serves on its own thread from construction to destruction.
///
/// Thread-safe. Waiting requests end at their own limit, or at once when the
/// job is aborted.
class StoreServer {
 public:
  /// A machine's request: its rank, its address, what it sent. The answer is
  /// sent at once when there is one, else `answer` sends it later.
  struct Exchange {
    std::uint64_t client = 0;
    std::uint32_t machine = 0;
    std::string address;
    std::string payload;
  };
  using ExchangeHandler =
      std::function<std::optional<std::string>(const Exchange&)>;
  using LossHandler = std::function<void(std::uint64_t client)>;
  using RefusalHandler =
      std::function<void(const std::string& address, const std::string& why)>;

  /// Throws `IoError` when an endpoint cannot be opened.
  explicit StoreServer(StoreServerOptions options);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();

  /// Called on the server's thread; set before the first machine connects.
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
