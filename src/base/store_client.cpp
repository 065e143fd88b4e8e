// SPDX-License-Identifier: Apache-2.0
#include "base/store_client.h"

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

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

StoreClient::StoreClient(const StoreClientOptions& options)
    : options_(options),
      socket_(connect_to(options.endpoint, options.connect_timeout)) {
  handshake();
}

StoreClient::~StoreClient() {
  // Tells the server that this process closes the connection on purpose. If the
  // message is lost, the server detects the closed connection.
  (void)send_all(
      socket_.get(),
      store::frame(static_cast<std::uint8_t>(Request::disconnect), ""),
      std::chrono::milliseconds(100));
}

void StoreClient::handshake() {
  const auto timeout = options_.connect_timeout;
  const auto fail = [&](const std::string& reason) {
    throw IoError(
        str_cat("the store at ", options_.endpoint.text(), " ", reason));
  };
  std::string greeting(store::kMagic.size() + store::kNonceBytes, '\0');
  if (!receive_all(socket_.get(), greeting.data(), greeting.size(), timeout)) {
    fail("closed the connection before sending a greeting");
  }
  if (!greeting.starts_with(store::kMagic)) {
    fail("uses a different protocol version");
  }
  if (options_.find_secret) {
    options_.secret = options_.find_secret();
  }
  const std::string server_nonce = greeting.substr(store::kMagic.size());
  const std::string client_nonce = random_bytes(store::kNonceBytes);
  const auto proof = hmac_sha256(
      options_.secret,
      store::signed_text("client", server_nonce, client_nonce, options_.hello));
  const std::string hello =
      Writer()
          .raw(client_nonce)
          .number(static_cast<std::uint8_t>(options_.hello.role))
          .number(options_.hello.rank)
          .number(options_.hello.generation)
          .raw(as_text(proof))
          .take();
  if (!send_all(socket_.get(), hello, timeout)) {
    fail("closed the connection");
  }
  char header[5];
  if (!receive_all(socket_.get(), header, sizeof(header), timeout)) {
    throw ConfigError(
        str_cat(
            "the store at ",
            options_.endpoint.text(),
            " rejected this process's secret"),
        "use the same ACCELERATE_JOB_SECRET, or the same secret file, on every "
        "machine");
  }
  Reader reader({header, sizeof(header)});
  const auto length = reader.number<std::uint32_t>();
  const auto code = static_cast<Reply>(reader.number<std::uint8_t>());
  if (length < 1 || length > 4096) {
    fail("sent a reply with an invalid length");
  }
  std::string payload(length - 1, '\0');
  if (!receive_all(socket_.get(), payload.data(), payload.size(), timeout)) {
    fail("closed the connection");
  }
  if (code != Reply::ok) {
    fail(str_cat("rejected this process: ", printable(payload)));
  }
  const auto expected = hmac_sha256(
      options_.secret,
      store::signed_text("server", server_nonce, client_nonce, options_.hello));
  if (!equal_in_constant_time(payload, as_text(expected))) {
    fail("does not know this job's secret");
  }
}

std::string StoreClient::call(
    Request request,
    std::string_view payload,
    Milliseconds timeout,
    std::string_view operation) {
  const std::scoped_lock lock(mutex_);
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
  // The server enforces `timeout`; this limit applies if the server died.
  const auto limit = timeout + kReplyTimeout;
  if (!send_all(
          socket_.get(),
          store::frame(static_cast<std::uint8_t>(request), payload),
          kReplyTimeout)) {
    throw_disconnected();
  }
  char header[5];
  if (!receive_all(socket_.get(), header, sizeof(header), limit)) {
    throw_disconnected();
  }
  Reader reader({header, sizeof(header)});
  const auto length = reader.number<std::uint32_t>();
  const auto code = static_cast<Reply>(reader.number<std::uint8_t>());
  if (length < 1 || length > store::kMaxFrame) {
    throw_disconnected();
  }
  std::string answer(length - 1, '\0');
  if (!receive_all(
          socket_.get(), answer.data(), answer.size(), kReplyTimeout)) {
    throw_disconnected();
  }
  switch (code) {
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
