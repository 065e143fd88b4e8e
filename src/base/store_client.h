// SPDX-License-Identifier: Apache-2.0
// A connection to the launcher's store, without LibTorch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/error.h"
#include "base/socket.h"
#include "base/store_protocol.h"
#include "base/unique_fd.h"

namespace accelerate {

/// A wait at the store ran out of time. The connection stays usable.
class StoreTimeout : public DistributedError {
 public:
  using DistributedError::DistributedError;
};

struct StoreClientOptions {
  Endpoint endpoint;
  std::string secret;
  /// Asked instead once the server has greeted, if there is one.
  std::function<std::string()> find_secret = {};
  store::Hello hello;
  std::chrono::milliseconds connect_timeout{30000};
};

/// One connection. Calls from several threads take turns: a thread that must
/// not wait behind another one's `get` opens a second client.
///
/// Throws `IoError` when the launcher is gone, `DistributedError` when it ends
/// the job or a wait runs out of time; the text names what was waited for.
class StoreClient {
 public:
  explicit StoreClient(const StoreClientOptions& options);
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;
  ~StoreClient();

  using Milliseconds = std::chrono::milliseconds;

  void set(std::string_view key, std::string_view value);
  std::string get(std::string_view key, Milliseconds timeout);
  std::int64_t add(std::string_view key, std::int64_t amount);
  std::string compare_set(
      std::string_view key,
      std::string_view expected,
      std::string_view desired);
  bool check(const std::vector<std::string>& keys);
  void wait(const std::vector<std::string>& keys, Milliseconds timeout);
  bool erase(std::string_view key);
  std::int64_t count();
  void append(std::string_view key, std::string_view value);

  /// What this rank is doing: shown when somebody asks the launcher.
  void set_status(std::string_view text);
  /// The exception this rank is about to die of, for the failure report.
  void report_failure(std::string_view text);
  /// Ranks whose connections ended.
  std::vector<std::uint32_t> departed();
  /// For the rendezvous of machines: one request, one answer.
  std::string exchange(std::string_view payload, Milliseconds timeout);

  const StoreClientOptions& options() const { return options_; }
  int socket() const { return socket_.get(); }

 private:
  void shake_hands();
  std::string call(
      store::Request request,
      std::string_view payload,
      Milliseconds timeout,
      std::string_view what);

  StoreClientOptions options_;
  std::mutex mutex_;
  UniqueFd socket_;
};

}  // namespace accelerate
