// SPDX-License-Identifier: Apache-2.0
#include "base/store_client.h"

#include <algorithm>
#include <thread>

#include <unistd.h>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

using store::Reader;
using store::Reply;
using store::Request;
using store::Writer;

// The time limit for replies that do not depend on other clients.
constexpr std::chrono::milliseconds kReplyTimeout{60000};
// How long a client tries again if the server has too many clients that have
// not authenticated, and the longest pause between two attempts.
constexpr std::chrono::milliseconds kBusyTimeout{10000};
constexpr std::chrono::milliseconds kMaxPause{200};

std::string keys_payload(Writer writer, const std::vector<std::string>& keys) {
  writer.number(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) {
    writer.string(key);
  }
  return writer.take();
}

std::uint8_t code_of(Request request) {
  return static_cast<std::uint8_t>(request);
}

}  // namespace

StoreClient::StoreClient(const StoreClientOptions& options)
    : options_(options), process_(::getpid()) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + options.connect_timeout;
  const auto last_try =
      Clock::now() + std::min(kBusyTimeout, options.connect_timeout);
  for (Milliseconds pause(5);; pause = std::min(2 * pause, kMaxPause)) {
    const auto left =
        std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    if (connect(std::max(left, Milliseconds(1)))) {
      return;
    }
    if (Clock::now() >= last_try) {
      fail("closed the connection during the handshake");
    }
    // Clients that started together must not all retry at the same time.
    const auto part = static_cast<unsigned char>(random_bytes(1)[0]);
    std::this_thread::sleep_for(pause * part / 256);
  }
}

StoreClient::~StoreClient() {
  if (process_ != ::getpid()) {
    return;
  }
  // Tells the server that this process closes the connection on purpose. If the
  // message is lost, the server detects the closed connection.
  (void)send_all(
      socket_.get(),
      sealer_->seal(code_of(Request::disconnect), ""),
      std::chrono::milliseconds(100));
}

// The next three functions return false, or nothing, if the server closes the
// connection or does not answer.
bool StoreClient::connect(Milliseconds timeout) {
  socket_ = connect_to(options_.endpoint, timeout);
  const auto handshake = exchange_nonces(timeout);
  if (!handshake) {
    return false;
  }
  if (options_.find_secret) {
    options_.secret = options_.find_secret();
  }
  if (options_.secret.empty()) {
    // Neither side has a secret, so the server cannot prove who it is.
    (void)send_proof(
        *handshake, std::string(store::kProofBytes, '\0'), timeout);
    throw_without_secret();
  }
  return prove_secret(*handshake, timeout);
}

// Reads the greeting and chooses what this side sends.
std::optional<store::Handshake> StoreClient::exchange_nonces(
    Milliseconds timeout) const {
  const auto receive = [&](std::string& bytes, std::size_t count) {
    bytes.resize(count);
    return receive_all(socket_.get(), bytes.data(), count, timeout);
  };
  std::string magic;
  if (!receive(magic, store::kMagic.size())) {
    return std::nullopt;
  }
  check_magic(magic);
  store::Handshake handshake;
  std::string size;
  if (!receive(handshake.server_nonce, store::kNonceBytes) ||
      !receive(size, 1) ||
      !receive(handshake.run_id, static_cast<unsigned char>(size[0]))) {
    return std::nullopt;
  }
  if (!options_.run_id.empty() && options_.run_id != handshake.run_id) {
    fail(str_cat(
        "belongs to run `",
        printable(handshake.run_id),
        "`, but this process belongs to run `",
        options_.run_id,
        "`"));
  }
  handshake.client_nonce = random_bytes(store::kNonceBytes);
  handshake.hello = options_.hello;
  return handshake;
}

bool StoreClient::prove_secret(
    const store::Handshake& handshake, Milliseconds timeout) {
  const auto keys = store::derive_keys(options_.secret, handshake);
  sealer_.emplace(keys.requests);
  opener_.emplace(keys.replies);
  if (!send_proof(handshake, as_text(keys.client_proof), timeout)) {
    return false;
  }
  const auto header = receive_header(timeout);
  if (!header) {
    return false;
  }
  if (header == store::kWrongProof) {
    throw_rejected();
  }
  const auto answer = receive_answer(*header, "connect");
  if (!answer) {
    return false;
  }
  if (answer->code != Reply::ok) {
    fail(str_cat("rejected this process: ", printable(answer->payload)));
  }
  options_.run_id = handshake.run_id;
  return true;
}

bool StoreClient::send_proof(
    const store::Handshake& handshake,
    std::string_view proof,
    Milliseconds timeout) const {
  const std::string hello =
      Writer()
          .raw(handshake.client_nonce)
          .number(static_cast<std::uint8_t>(handshake.hello.role))
          .number(handshake.hello.rank)
          .number(handshake.hello.generation)
          .raw(proof)
          .take();
  return send_all(socket_.get(), hello, timeout);
}

void StoreClient::check_magic(std::string_view magic) const {
  constexpr auto kName = store::kMagic.substr(0, store::kMagic.size() - 1);
  if (!magic.starts_with(kName)) {
    throw IoError(
        str_cat(
            "the program at ",
            options_.endpoint.text(),
            " is not the store of `accelerate launch`"),
        "check the address and the port: another program may be using them");
  }
  if (magic != store::kMagic) {
    fail(str_cat(
        "uses version ",
        printable(magic.substr(kName.size())),
        " of the protocol, but this process uses version ",
        store::kMagic.substr(kName.size())));
  }
}

void StoreClient::fail(std::string_view reason) const {
  throw IoError(
      str_cat("the store at ", options_.endpoint.text(), " ", reason));
}

void StoreClient::throw_without_secret() const {
  throw ConfigError(
      str_cat(
          "this process has no job secret, so it cannot check that the store "
          "at ",
          options_.endpoint.text(),
          " belongs to its job"),
      options_.hello.role == store::Role::machine
          ? "set the same ACCELERATE_JOB_SECRET on every machine, or copy the "
            "file `job_secret` from machine 0"
          : "set ACCELERATE_STORE_SECRET, which `accelerate launch` passes to "
            "its workers");
}

void StoreClient::throw_rejected() const {
  throw ConfigError(
      str_cat(
          "the store at ",
          options_.endpoint.text(),
          " rejected this process's secret"),
      "use the same ACCELERATE_JOB_SECRET, or the same secret file, on every "
      "machine");
}

void StoreClient::check_process(std::string_view operation) const {
  if (process_ != ::getpid()) {
    throw StateError(
        str_cat(
            operation,
            ": the connection to the launcher's store belongs to process ",
            process_,
            ", from which this process was forked"),
        "use the launcher's store only in the process that connected to it");
  }
}

// This function and the next one return nothing if the connection is lost.
std::optional<std::string> StoreClient::receive_header(
    Milliseconds timeout) const {
  std::string header(store::kHeaderBytes, '\0');
  if (!receive_all(socket_.get(), header.data(), header.size(), timeout)) {
    return std::nullopt;
  }
  return header;
}

std::optional<StoreClient::Answer> StoreClient::receive_answer(
    const std::string& header, std::string_view operation) {
  const auto fields = store::read_header(header);
  std::optional<std::string> payload;
  if (fields) {
    std::string body(fields->body_bytes, '\0');
    if (!receive_all(socket_.get(), body.data(), body.size(), kReplyTimeout)) {
      return std::nullopt;
    }
    payload = opener_->open(header, std::move(body));
  }
  if (!payload) {
    throw IoError(
        str_cat(
            operation,
            ": received a reply that does not come from the launcher's store "
            "at ",
            options_.endpoint.text()),
        "find out which program is interfering with the connections between "
        "the machines");
  }
  return Answer{static_cast<Reply>(fields->code), std::move(*payload)};
}

std::string StoreClient::call(
    Request request,
    std::string_view payload,
    Milliseconds timeout,
    std::string_view operation) {
  const std::scoped_lock lock(mutex_);
  check_process(operation);
  const auto throw_disconnected = [&]() {
    throw IoError(
        str_cat(
            "lost the connection to the launcher's store at ",
            options_.endpoint.text(),
            " during ",
            operation),
        "check the output of the launcher for an earlier error");
  };
  if (payload.size() + 1 > store::kMaxFrame) {
    throw ArgumentError(str_cat(
        operation,
        ": ",
        payload.size(),
        " bytes exceed the store's limit of ",
        store::kMaxFrame,
        " bytes"));
  }
  if (!send_all(
          socket_.get(),
          sealer_->seal(code_of(request), payload),
          kReplyTimeout)) {
    throw_disconnected();
  }
  // The server enforces `timeout`; this limit applies if the server died.
  const auto header = receive_header(timeout + kReplyTimeout);
  if (!header) {
    throw_disconnected();
  }
  const auto received = receive_answer(*header, operation);
  if (!received) {
    throw_disconnected();
  }
  const std::string& answer = received->payload;
  switch (received->code) {
    case Reply::ok:
      return answer;
    case Reply::timeout:
      throw StoreTimeout(str_cat(
          operation,
          ": key ",
          printable(answer),
          " was not set within ",
          timeout.count(),
          " ms"));
    case Reply::aborted:
      throw DistributedError(str_cat(
          operation,
          ": the launcher is stopping this job: ",
          printable(answer)));
    case Reply::stale:
      throw DistributedError(str_cat(
          operation,
          ": this process was started before the launcher restarted the "
          "workers"));
    case Reply::refused:
      throw InternalError(str_cat(operation, ": ", printable(answer)));
  }
  throw InternalError(
      str_cat(operation, ": the store sent an unknown type of reply"));
}

void StoreClient::set(std::string_view key, std::string_view value) {
  call(
      Request::set,
      Writer().string(key).string(value).take(),
      Milliseconds(0),
      "set");
}

std::string StoreClient::get(std::string_view key, Milliseconds timeout) {
  return call(
      Request::get,
      Writer().string(key).number(timeout.count()).take(),
      timeout,
      "get");
}

std::int64_t StoreClient::add(std::string_view key, std::int64_t amount) {
  const std::string answer = call(
      Request::add,
      Writer().string(key).number(amount).take(),
      Milliseconds(0),
      "add");
  return Reader(answer).number<std::int64_t>();
}

std::string StoreClient::compare_set(
    std::string_view key, std::string_view expected, std::string_view desired) {
  return call(
      Request::compare_set,
      Writer().string(key).string(expected).string(desired).take(),
      Milliseconds(0),
      "compare_set");
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  return call(
             Request::check,
             keys_payload(Writer(), keys),
             Milliseconds(0),
             "check") == std::string(1, '\1');
}

void StoreClient::wait(
    const std::vector<std::string>& keys, Milliseconds timeout) {
  Writer writer;
  writer.number(timeout.count());
  call(Request::wait, keys_payload(std::move(writer), keys), timeout, "wait");
}

bool StoreClient::erase(std::string_view key) {
  return call(
             Request::erase,
             Writer().string(key).take(),
             Milliseconds(0),
             "erase") == std::string(1, '\1');
}

std::int64_t StoreClient::count() {
  const std::string answer = call(Request::count, "", Milliseconds(0), "count");
  return Reader(answer).number<std::int64_t>();
}

void StoreClient::append(std::string_view key, std::string_view value) {
  call(
      Request::append,
      Writer().string(key).string(value).take(),
      Milliseconds(0),
      "append");
}

void StoreClient::set_status(std::string_view text) {
  call(
      Request::status, Writer().string(text).take(), Milliseconds(0), "status");
}

void StoreClient::report_failure(std::string_view text) {
  call(Request::fail, Writer().string(text).take(), Milliseconds(0), "fail");
}

std::vector<std::uint32_t> StoreClient::disconnected_ranks() {
  const std::string answer = call(
      Request::disconnected_ranks, "", Milliseconds(0), "disconnected_ranks");
  Reader reader(answer);
  std::vector<std::uint32_t> ranks(
      std::min<std::size_t>(reader.number<std::uint32_t>(), answer.size() / 4));
  for (std::uint32_t& rank : ranks) {
    rank = reader.number<std::uint32_t>();
  }
  return ranks;
}

std::string StoreClient::exchange(
    std::string_view payload, Milliseconds timeout) {
  return call(Request::exchange, payload, timeout, "rendezvous");
}

}  // namespace accelerate
