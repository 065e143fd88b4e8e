// SPDX-License-Identifier: Apache-2.0
// The logic of the launcher's store: authentication, generations, waiting
// requests and the status of the ranks. No sockets and no threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/store_protocol.h"
#include "base/store_session.h"
#include "launch/connections.h"
#include "launch/store_data.h"

namespace accelerate {

/// The status of one rank in the current generation.
struct RankStatus {
  std::uint32_t rank = 0;
  bool is_connected = false;
  std::string status;       ///< The operation that the rank last reported.
  std::string waiting_for;  ///< The key the rank waits for, if any.
  double waiting_seconds = 0;
  /// The optimizer step, set by the rank's launcher.
  std::optional<std::int64_t> step;
  std::string failure;     ///< The exception the rank reported.
  double failure_age = 0;  ///< Seconds since `failure` was reported.
};

/// A request from a machine: the rank and the address of the machine, and the
/// payload.
struct StoreExchange {
  std::uint64_t client = 0;
  std::uint32_t machine = 0;
  std::string address;
  std::string payload;
};

class StoreCore : public ConnectionHandler {
 public:
  using Clock = std::chrono::steady_clock;
  using Send = std::function<void(std::uint64_t id, std::string_view bytes)>;

  /// `run_id` distinguishes the store of this run from other stores with the
  /// same secret; it has at most 255 bytes.
  StoreCore(std::string secret, std::string run_id, Send send);

  /// Handles a machine's request. Returns the answer, or nothing if the answer
  /// will be sent later with `answer`.
  using Exchange =
      std::function<std::optional<std::string>(const StoreExchange&)>;
  /// Sets the handler for requests from machines. Immediately passes the
  /// requests that arrived earlier to the handler.
  void set_exchange(Exchange exchange);
  /// Whether other machines will connect. Their requests wait until
  /// `set_exchange` is called.
  bool expects_machines = false;
  std::function<void(std::uint64_t client)> on_machine_disconnect;
  /// Called for each refused connection, including connections that were
  /// refused before `set_refusal` was called.
  using Refusal = std::function<void(
      const std::string& address, const std::string& reason)>;
  void set_refusal(Refusal refusal);

  void on_connect(std::uint64_t id, const std::string& address) override;
  State on_bytes(std::uint64_t id, std::string& incoming) override;
  void on_close(std::uint64_t id) override;

  void answer(std::uint64_t id, std::string_view payload);
  void start_generation(std::uint32_t generation);
  void abort(const std::string& reason);
  std::vector<RankStatus> status() const;

  /// Answers waiting requests that have timed out.
  void end_overdue();
  std::optional<Clock::time_point> next_deadline() const;

 private:
  // A pending request that waits for keys.
  struct Wait {
    StoreOutcome request;
    Clock::time_point since;
    Clock::time_point deadline;
    std::string key;  // The first missing key.
  };
  struct Client {
    std::uint64_t id = 0;
    std::string address;
    std::string nonce;
    // Whether the client has proved that it has the secret.
    bool is_authenticated = false;
    bool is_refused = false;  // Whether the client's hello was refused.
    store::Hello hello;
    std::optional<store::FrameSealer> sealer;  // Set once authenticated.
    std::optional<store::FrameOpener> opener;
    std::optional<Wait> wait;
  };
  struct Rank {
    int connections = 0;
    bool was_connected = false;
    std::string status;
    std::string failure;
    Clock::time_point failed_at;
  };

  void reply(Client& client, store::Reply code, std::string_view text);
  bool authenticate(Client& client, std::string& incoming);
  std::string refusal_reason(
      const store::Hello& hello,
      const Digest& expected,
      std::string_view proof) const;
  bool is_stale(const Client& client) const;
  bool take_frame(Client& client, std::string& incoming);
  void handle_request(
      Client& client, store::Request request, const std::string& payload);
  void refuse(const std::string& address, const std::string& reason);
  void handle_exchange(Client& client, const std::string& payload);
  bool handle_notice(
      Client& client, store::Request request, const std::string& payload);
  std::string disconnected_ranks() const;
  void begin_wait(Client& client, StoreOutcome request);
  std::optional<Wait> take_wait(Client& client);
  void end_wait(Client& client);
  void end_all_waits(
      const std::function<bool(const Client&)>& predicate,
      store::Reply code,
      const std::string& text);
  void wake_waiters(const std::string& key);

  std::string secret_;
  std::string run_id_;
  Send send_;
  Exchange exchange_;
  std::vector<std::pair<std::uint64_t, std::string>> early_;
  Refusal refusal_;
  std::vector<std::pair<std::string, std::string>> early_refusals_;
  StoreData data_;
  std::unordered_map<std::uint64_t, Client> clients_;
  std::map<std::uint32_t, Rank> ranks_;
  std::unordered_map<std::string, std::set<std::uint64_t>> waiting_;
  std::set<std::pair<Clock::time_point, std::uint64_t>> deadlines_;
  std::optional<std::string> abort_reason_;
  std::uint32_t generation_ = 0;
};

}  // namespace accelerate
