// SPDX-License-Identifier: Apache-2.0
// The launcher's key-value store. Workers use it for the rendezvous; the
// launcher uses it to see which ranks are connected and what each rank waits
// for.
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
  /// Distinguishes this run from other runs with the same secret.
  std::string run_id = {};
  /// A client has this much time to prove that it has the secret.
  std::chrono::milliseconds hello_timeout{10000};
  /// Replaces `hello_timeout` while `max_unauthenticated` connections are open.
  std::chrono::milliseconds crowded_hello_timeout{1000};
  /// Maximum number of unauthenticated connections from the network. At most
  /// half of them may come from one address. Other clients are disconnected and
  /// must try again.
  std::size_t max_unauthenticated = 64;
  /// Whether other machines will connect. Their requests wait until
  /// `on_exchange` is called.
  bool expects_machines = false;
};

/// Serves the store on its own thread from construction to destruction.
///
/// Thread-safe. A waiting request ends at its timeout, or immediately if the
/// job is aborted.
class StoreServer {
 public:
  using Exchange = StoreExchange;
  /// Handles a machine's request. Returns the answer, or nothing if the answer
  /// will be sent later with `answer`.
  using ExchangeHandler =
      std::function<std::optional<std::string>(const Exchange&)>;
  using DisconnectHandler = std::function<void(std::uint64_t client)>;
  using RefusalHandler = std::function<void(
      const std::string& address, const std::string& reason)>;

  /// Starts the server. Throws `IoError` if an endpoint cannot be opened.
  explicit StoreServer(const StoreServerOptions& options);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();

  /// Sets the handler for requests from machines. All handlers are called on
  /// the server's thread.
  void on_exchange(ExchangeHandler handler);
  void on_machine_disconnect(DisconnectHandler handler);
  void on_refusal(RefusalHandler handler);
  void answer(std::uint64_t client, std::string_view payload);

  /// Returns the endpoint at `index`, with the port that the system assigned.
  Endpoint endpoint(std::size_t index) const;

  /// Deletes all keys, and from then on serves only workers of `generation`.
  void start_generation(std::uint32_t generation);
  /// Fails all current and later waiting requests with `reason`.
  void abort(const std::string& reason);
  std::vector<RankStatus> status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
