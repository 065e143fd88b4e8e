// SPDX-License-Identifier: Apache-2.0
// What the launcher's store answers to whom: proofs, generations, waits and
// what each rank says about itself. No sockets and no threads.
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
#include "launch/connections.h"
#include "launch/store_data.h"

namespace accelerate {

/// What the store knows about one rank of the current generation.
struct RankStatus {
  std::uint32_t rank = 0;
  bool is_connected = false;
  std::string status;       ///< What the rank said it is doing.
  std::string waiting_for;  ///< The keys it waits for, if it does.
  double waiting_seconds = 0;
  std::optional<std::int64_t> step;  ///< From its launcher, not the store.
  std::string failure;               ///< The exception it reported.
  double failure_age = 0;            ///< Seconds since then.
};

/// A machine's request: its rank, its address, what it sent.
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

  StoreCore(std::string secret, Send send);

  /// The answer to a machine, or none: `answer` sends it later.
  using Exchange =
      std::function<std::optional<std::string>(const StoreExchange&)>;
  /// Machines that came before this was set are answered now.
  void set_exchange(Exchange exchange);
  /// Machines will come: those that are early wait for `set_exchange`.
  bool expects_machines = false;
  std::function<void(std::uint64_t client)> machine_lost;
  /// Hears who was turned away, also before it was set.
  using Refusal =
      std::function<void(const std::string& address, const std::string& why)>;
  void set_refusal(Refusal refusal);

  void on_connect(std::uint64_t id, const std::string& address) override;
  Verdict on_bytes(std::uint64_t id, std::string& incoming) override;
  void on_close(std::uint64_t id) override;

  void answer(std::uint64_t id, std::string_view payload);
  void start_generation(std::uint32_t generation);
  void abort(const std::string& reason);
  std::vector<RankStatus> status() const;

  /// Answers waits whose time has run out.
  void end_overdue();
  std::optional<Clock::time_point> next_deadline() const;

 private:
  // A request that waits for keys.
  struct Wait {
    StoreOutcome request;
    Clock::time_point since;
    Clock::time_point deadline;
    std::string key;  // The first that is missing.
  };
  struct Client {
    std::uint64_t id = 0;
    std::string address;
    std::string nonce;
    bool is_known = false;    // Has proved the secret.
    bool is_refused = false;  // Said who it is, in vain.
    store::Hello hello;
    std::optional<Wait> wait;
  };
  struct Rank {
    int connections = 0;
    bool was_connected = false;
    std::string status;
    std::string failure;
    Clock::time_point failed_at;
  };

  void reply(const Client& client, store::Reply code, std::string_view text);
  bool admit(Client& client, std::string& incoming);
  std::string why_not(
      const store::Hello& hello,
      const Client& client,
      std::string_view nonce,
      std::string_view proof) const;
  bool is_stale(const Client& client) const;
  bool take_frame(Client& client, std::string& incoming);
  void handle_request(
      Client& client, store::Request request, const std::string& payload);
  void refuse(const std::string& address, const std::string& why);
  void handle_exchange(const Client& client, const std::string& payload);
  bool handle_notice(
      const Client& client, store::Request request, const std::string& payload);
  std::string departed() const;
  void begin_wait(Client& client, StoreOutcome request);
  std::optional<Wait> take_wait(Client& client);
  void end_wait(Client& client);
  void end_all_waits(
      const std::function<bool(const Client&)>& which,
      store::Reply code,
      const std::string& text);
  void wake_waiters(const std::string& key);

  std::string secret_;
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
