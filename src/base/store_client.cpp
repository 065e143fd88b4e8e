// SPDX-License-Identifier: Apache-2.0
#include "base/store_client.h"

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
    : options_(options),
      socket_(connect_to(options.endpoint, options.connect_timeout)),
      process_(::getpid()) {
  handshake();
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

void StoreClient::handshake() {
  const store::Handshake handshake = exchange_nonces();
  if (options_.secret.empty()) {
    // A server that has no secret either must not be trusted.
    send_proof(handshake, std::string(store::kProofBytes, '\0'));
    throw_without_secret();
  }
  const auto keys = store::derive_keys(options_.secret, handshake);
  send_proof(handshake, as_text(keys.client_proof));
  sealer_.emplace(keys.requests);
  opener_.emplace(keys.replies);
  const auto answer = receive_answer(options_.connect_timeout, "connect");
  if (!answer) {
    throw_rejected();
  }
  if (answer->code != Reply::ok) {
    fail(str_cat("rejected this process: ", printable(answer->payload)));
  }
}

// Reads the greeting and chooses what this side says.
store::Handshake StoreClient::exchange_nonces() {
  const auto timeout = options_.connect_timeout;
  const auto receive = [&](std::size_t count) {
    std::string bytes(count, '\0');
    if (!receive_all(socket_.get(), bytes.data(), count, timeout)) {
      fail("closed the connection before sending a greeting");
    }
    return bytes;
  };
  const std::string magic = receive(store::kMagic.size());
  if (!magic.starts_with(store::kMagic.substr(0, 7))) {
    fail("is not the store of `accelerate launch`");
  }
  if (magic != store::kMagic) {
    fail(str_cat(
        "uses version ",
        printable(magic.substr(7)),
        " of the protocol, but this process uses version ",
        store::kMagic.substr(7)));
  }
  store::Handshake handshake;
  handshake.server_nonce = receive(store::kNonceBytes);
  handshake.run_id =
      receive(static_cast<unsigned char>(receive(sizeof(std::uint8_t))[0]));
  if (!options_.run_id.empty() && options_.run_id != handshake.run_id) {
    fail(str_cat(
        "belongs to run `",
        printable(handshake.run_id),
        "`, but this process belongs to run `",
        options_.run_id,
        "`"));
  }
  if (options_.find_secret) {
    options_.secret = options_.find_secret();
  }
  options_.run_id = handshake.run_id;
  handshake.client_nonce = random_bytes(store::kNonceBytes);
  handshake.hello = options_.hello;
  return handshake;
}

void StoreClient::send_proof(
    const store::Handshake& handshake, std::string_view proof) const {
  const std::string hello =
      Writer()
          .raw(handshake.client_nonce)
          .number(static_cast<std::uint8_t>(handshake.hello.role))
          .number(handshake.hello.rank)
          .number(handshake.hello.generation)
          .raw(proof)
          .take();
  if (!send_all(socket_.get(), hello, options_.connect_timeout)) {
    fail("closed the connection");
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
        "call the launcher's store only in the process that opened it");
  }
}

// Returns nothing if the connection is lost.
std::optional<StoreClient::Answer> StoreClient::receive_answer(
    Milliseconds timeout, std::string_view operation) {
  std::string header(store::kHeaderBytes, '\0');
  if (!receive_all(socket_.get(), header.data(), header.size(), timeout)) {
    return std::nullopt;
  }
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
            ": the answer was not sent by the launcher's store at ",
            options_.endpoint.text()),
        "find out which program changes the connections between the machines");
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
  const auto received = receive_answer(timeout + kReplyTimeout, operation);
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
          ": the launcher has restarted the workers, but this process is from "
          "before the restart"));
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
