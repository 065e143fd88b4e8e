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
#include "base/store_session.h"
#include "base/unique_fd.h"

namespace accelerate {

/// Thrown when a key was not set before the timeout. The connection stays
/// usable.
class StoreTimeout : public DistributedError {
 public:
  using DistributedError::DistributedError;
};

struct StoreClientOptions {
  Endpoint endpoint;
  std::string secret;
  /// If set, returns the secret to use instead of `secret`. Called after the
  /// server's greeting has arrived.
  std::function<std::string()> find_secret = {};
  store::Hello hello;
  /// The run that the store must belong to. If empty, the store may belong to
  /// any run that has the secret, and the client sets `run_id` to that run.
  std::string run_id = {};
  std::chrono::milliseconds connect_timeout{30000};
};

/// One connection to the launcher's store. Calls from several threads run one
/// after the other; a thread that must not wait for another thread's `get`
/// needs its own client. A forked process cannot use its parent's client.
///
/// The constructor throws `ConfigError` if there is no secret or the store has
/// a different secret. The other functions throw `IoError` when the connection
/// to the launcher is lost or a frame is not authentic, and `DistributedError`
/// when the launcher stops the job. If a key is not set before the timeout,
/// `get` and `wait` throw a `StoreTimeout` that names the missing key.
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

  /// Reports what this rank is doing, for the status that the launcher prints.
  void set_status(std::string_view text);
  /// Sends the exception that will end this rank, for the failure report.
  void report_failure(std::string_view text);
  /// Returns the ranks whose connections to the store have closed.
  std::vector<std::uint32_t> disconnected_ranks();
  /// Sends one request for the rendezvous of machines and returns the reply.
  std::string exchange(std::string_view payload, Milliseconds timeout);

  const StoreClientOptions& options() const { return options_; }
  int socket() const { return socket_.get(); }

 private:
  bool connect(Milliseconds timeout);
  std::optional<store::Handshake> exchange_nonces(Milliseconds timeout) const;
  bool prove_secret(const store::Handshake& handshake, Milliseconds timeout);
  bool send_proof(
      const store::Handshake& handshake,
      std::string_view proof,
      Milliseconds timeout) const;
  void check_magic(std::string_view magic) const;
  [[noreturn]] void throw_without_secret() const;
  [[noreturn]] void throw_rejected() const;
  [[noreturn]] void fail(std::string_view reason) const;
  struct Answer {
    store::Reply code;
    std::string payload;
  };
  std::optional<std::string> receive_header(Milliseconds timeout) const;
  std::optional<Answer> receive_answer(
      const std::string& header, std::string_view operation);
  void check_process(std::string_view operation) const;
  std::string call(
      store::Request request,
      std::string_view payload,
      Milliseconds timeout,
      std::string_view operation);

  StoreClientOptions options_;
  std::mutex mutex_;
  UniqueFd socket_;
  // The process that opened the connection. A forked process must not send
  // frames, because it would reuse the position of a frame, and therefore a
  // nonce.
  int process_;
  std::optional<store::FrameSealer> sealer_;
  std::optional<store::FrameOpener> opener_;
};

}  // namespace accelerate
