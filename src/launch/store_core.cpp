// SPDX-License-Identifier: Apache-2.0
#include "launch/store_core.h"

#include <algorithm>

#include "base/hmac.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

using store::Hello;
using store::Reader;
using store::Reply;
using store::Request;
using store::Role;
using store::Writer;

constexpr std::size_t kMaxText = 4096;

double seconds_since(StoreCore::Clock::time_point then) {
  return std::chrono::duration<double>(StoreCore::Clock::now() - then).count();
}

// Limits a timeout to one day, so that adding it to the current time cannot
// overflow.
std::chrono::milliseconds bounded(std::int64_t timeout_ms) {
  constexpr std::int64_t kDay = 86400000;
  return std::chrono::milliseconds(
      std::clamp<std::int64_t>(timeout_ms, 0, kDay));
}

// Workers on this machine connect through a Unix socket, which has no address.
bool is_remote(const std::string& address) {
  return address.find(':') != std::string::npos;
}

// Limits the refusals that are kept until `set_refusal`.
constexpr std::size_t kMaxEarlyRefusals = 64;

}  // namespace

StoreCore::StoreCore(std::string secret, std::string run_id, Send send)
    : secret_(std::move(secret)),
      run_id_(std::move(run_id)),
      send_(std::move(send)) {
}

void StoreCore::on_connect(std::uint64_t id, const std::string& address) {
  Client client;
  client.id = id;
  client.address = address;
  client.nonce = random_bytes(store::kNonceBytes);
  send_(
      id,
      Writer()
          .raw(store::kMagic)
          .raw(client.nonce)
          .number(static_cast<std::uint8_t>(run_id_.size()))
          .raw(run_id_)
          .take());
  clients_.emplace(id, std::move(client));
}

StoreCore::State StoreCore::on_bytes(std::uint64_t id, std::string& incoming) {
  Client& client = clients_.at(id);
  if (!client.is_authenticated) {
    if (incoming.size() < store::kHelloBytes) {
      return State::unauthenticated;
    }
    if (!authenticate(client, incoming)) {
      return State::closing;
    }
  }
  while (incoming.size() >= store::kHeaderBytes) {
    const std::size_t before = incoming.size();
    if (!take_frame(client, incoming)) {
      return State::closing;
    }
    if (incoming.size() == before) {
      break;
    }
  }
  return State::authenticated;
}

void StoreCore::on_close(std::uint64_t id) {
  const auto found = clients_.find(id);
  Client& client = found->second;
  (void)take_wait(client);
  if (client.is_authenticated && client.hello.role == Role::worker &&
      !is_stale(client)) {
    --ranks_[client.hello.rank].connections;
  }
  const bool is_machine =
      client.is_authenticated && client.hello.role == Role::machine;
  if (!client.is_authenticated && !client.is_refused &&
      is_remote(client.address)) {
    refuse(client.address, "the client did not authenticate");
  }
  clients_.erase(found);
  if (is_machine && on_machine_disconnect) {
    on_machine_disconnect(id);
  }
}

void StoreCore::answer(std::uint64_t id, std::string_view payload) {
  const auto found = clients_.find(id);
  if (found != clients_.end()) {
    reply(found->second, Reply::ok, payload);
  }
}

void StoreCore::start_generation(std::uint32_t generation) {
  generation_ = generation;
  abort_reason_.reset();
  data_.clear();
  ranks_.clear();
  end_all_waits(
      [this](const Client& client) { return is_stale(client); },
      Reply::stale,
      "");
}

void StoreCore::abort(const std::string& reason) {
  abort_reason_ = reason;
  end_all_waits([](const Client&) { return true; }, Reply::aborted, reason);
}

std::vector<RankStatus> StoreCore::status() const {
  std::map<std::uint32_t, RankStatus> result;
  for (const auto& [number, rank] : ranks_) {
    RankStatus& entry = result[number];
    entry.rank = number;
    entry.is_connected = rank.connections > 0;
    entry.status = rank.status;
    entry.failure = rank.failure;
    entry.failure_age =
        rank.failure.empty() ? 0 : seconds_since(rank.failed_at);
  }
  for (const auto& [id, client] : clients_) {
    const auto found = result.find(client.hello.rank);
    if (client.wait && client.hello.role == Role::worker &&
        found != result.end()) {
      found->second.waiting_for = client.wait->key;
      found->second.waiting_seconds = seconds_since(client.wait->since);
    }
  }
  std::vector<RankStatus> list;
  for (auto& [number, entry] : result) {
    list.push_back(std::move(entry));
  }
  return list;
}

void StoreCore::end_overdue() {
  const auto now = Clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Client& client = clients_.at(deadlines_.begin()->second);
    const auto wait = take_wait(client);
    reply(client, Reply::timeout, str_cat("`", wait->key, "`"));
  }
}

std::optional<StoreCore::Clock::time_point> StoreCore::next_deadline() const {
  return deadlines_.empty() ? std::nullopt
                            : std::optional(deadlines_.begin()->first);
}

void StoreCore::reply(Client& client, Reply code, std::string_view text) {
  send_(client.id, client.sealer->seal(static_cast<std::uint8_t>(code), text));
}

// Returns an empty string if the proof is correct.
std::string StoreCore::refusal_reason(
    const Hello& hello, const Digest& expected, std::string_view proof) const {
  if (hello.role != Role::worker && hello.role != Role::machine) {
    return "the client is neither a worker nor a machine";
  }
  if (proof == std::string(store::kProofBytes, '\0')) {
    return "the client has no secret";
  }
  const bool is_correct =
      !secret_.empty() && equal_in_constant_time(proof, as_text(expected));
  return is_correct ? "" : "wrong secret";
}

// Returns whether the client has proved that it has the secret.
bool StoreCore::authenticate(Client& client, std::string& incoming) {
  Reader reader(incoming);
  store::Handshake handshake{run_id_, client.nonce, {}, {}};
  handshake.client_nonce = reader.raw(store::kNonceBytes);
  Hello& hello = handshake.hello;
  hello.role = static_cast<Role>(reader.number<std::uint8_t>());
  hello.rank = reader.number<std::uint32_t>();
  hello.generation = reader.number<std::uint32_t>();
  const std::string proof(reader.raw(store::kProofBytes));
  incoming.erase(0, store::kHelloBytes);
  const auto keys = store::derive_keys(secret_, handshake);
  if (const std::string reason =
          refusal_reason(hello, keys.client_proof, proof);
      !reason.empty()) {
    client.is_refused = true;
    refuse(client.address, reason);
    send_(client.id, store::kWrongProof);
    return false;
  }
  client.hello = hello;
  client.is_authenticated = true;
  client.opener.emplace(keys.requests);
  client.sealer.emplace(keys.replies);
  if (is_stale(client)) {
    reply(
        client, Reply::stale, "this process belongs to an earlier generation");
    return true;
  }
  if (hello.role == Role::worker) {
    Rank& rank = ranks_[hello.rank];
    ++rank.connections;
    rank.was_connected = true;
  }
  reply(client, Reply::ok, "");
  return true;
}

bool StoreCore::is_stale(const Client& client) const {
  return client.hello.role == Role::worker &&
         client.hello.generation != generation_;
}

// Handles one frame if it is complete. Returns false if the connection must be
// closed.
bool StoreCore::take_frame(Client& client, std::string& incoming) {
  const std::string header = incoming.substr(0, store::kHeaderBytes);
  const auto fields = store::read_header(header);
  if (!fields) {
    return false;
  }
  const std::size_t size = header.size() + fields->body_bytes;
  if (incoming.size() < size) {
    return true;
  }
  const auto payload = client.opener->open(
      header, incoming.substr(header.size(), fields->body_bytes));
  incoming.erase(0, size);
  if (!payload) {
    refuse(client.address, "a request failed authentication");
    return false;
  }
  const auto request = static_cast<Request>(fields->code);
  // A client may send only one request at a time, so a request during a wait is
  // a protocol error.
  if (request == Request::disconnect || client.wait) {
    return false;
  }
  handle_request(client, request, *payload);
  return true;
}

void StoreCore::handle_request(
    Client& client, Request request, const std::string& payload) {
  if (is_stale(client)) {
    reply(client, Reply::stale, "");
    return;
  }
  if (request == Request::exchange && client.hello.role == Role::machine) {
    handle_exchange(client, payload);
    return;
  }
  if (handle_notice(client, request, payload)) {
    return;
  }
  if (abort_reason_) {
    reply(client, Reply::aborted, *abort_reason_);
    return;
  }
  StoreOutcome outcome = data_.handle(request, payload);
  if (outcome.kind == StoreOutcome::Kind::wait) {
    begin_wait(client, std::move(outcome));
    return;
  }
  reply(client, outcome.code, outcome.payload);
  if (!outcome.changed_key.empty()) {
    wake_waiters(outcome.changed_key);
  }
}

void StoreCore::set_refusal(Refusal refusal) {
  refusal_ = std::move(refusal);
  if (!refusal_) {
    return;
  }
  for (const auto& [address, reason] : std::exchange(early_refusals_, {})) {
    refusal_(address, reason);
  }
}

void StoreCore::refuse(const std::string& address, const std::string& reason) {
  if (refusal_) {
    refusal_(address, reason);
  } else if (expects_machines && early_refusals_.size() < kMaxEarlyRefusals) {
    early_refusals_.emplace_back(address, reason);
  }
}

void StoreCore::set_exchange(Exchange exchange) {
  exchange_ = std::move(exchange);
  if (!exchange_) {
    return;
  }
  for (const auto& [id, payload] : std::exchange(early_, {})) {
    const auto found = clients_.find(id);
    if (found != clients_.end()) {
      handle_exchange(found->second, payload);
    }
  }
}

void StoreCore::handle_exchange(Client& client, const std::string& payload) {
  if (!exchange_ && expects_machines) {
    early_.emplace_back(client.id, payload);
    return;
  }
  if (!exchange_) {
    reply(client, Reply::refused, "this job has only one machine");
    return;
  }
  const auto text =
      exchange_({client.id, client.hello.rank, client.address, payload});
  if (text) {
    reply(client, Reply::ok, *text);
  }
}

// Handles requests about the rank rather than about keys.
bool StoreCore::handle_notice(
    Client& client, Request request, const std::string& payload) {
  if (client.hello.role != Role::worker) {
    return false;
  }
  Rank& rank = ranks_[client.hello.rank];
  switch (request) {
    case Request::status:
      rank.status = Reader(payload).string().substr(0, kMaxText);
      reply(client, Reply::ok, "");
      return true;
    case Request::fail:
      rank.failure = Reader(payload).string().substr(0, kMaxText);
      rank.failed_at = Clock::now();
      reply(client, Reply::ok, "");
      return true;
    case Request::disconnected_ranks:
      reply(client, Reply::ok, disconnected_ranks());
      return true;
    default:
      return false;
  }
}

std::string StoreCore::disconnected_ranks() const {
  std::vector<std::uint32_t> disconnected;
  for (const auto& [number, rank] : ranks_) {
    if (rank.was_connected && rank.connections == 0) {
      disconnected.push_back(number);
    }
  }
  Writer writer;
  writer.number(static_cast<std::uint32_t>(disconnected.size()));
  for (const std::uint32_t number : disconnected) {
    writer.number(number);
  }
  return writer.take();
}

void StoreCore::begin_wait(Client& client, StoreOutcome request) {
  const auto missing = data_.first_missing(request.keys);
  const auto now = Clock::now();
  const auto deadline = now + bounded(request.timeout_ms);
  client.wait =
      Wait{std::move(request), now, deadline, missing.value_or(std::string())};
  if (!missing) {
    end_wait(client);
    return;
  }
  waiting_[*missing].insert(client.id);
  deadlines_.emplace(deadline, client.id);
}

// Every waiting request ends through this function.
std::optional<StoreCore::Wait> StoreCore::take_wait(Client& client) {
  auto wait = std::exchange(client.wait, std::nullopt);
  if (wait) {
    deadlines_.erase({wait->deadline, client.id});
    const auto found = waiting_.find(wait->key);
    if (found != waiting_.end()) {
      found->second.erase(client.id);
      if (found->second.empty()) {
        waiting_.erase(found);
      }
    }
  }
  return wait;
}

void StoreCore::end_wait(Client& client) {
  const auto wait = take_wait(client);
  reply(
      client,
      Reply::ok,
      wait->request.wants_value ? *data_.find(wait->request.keys[0])
                                : std::string());
}

void StoreCore::end_all_waits(
    const std::function<bool(const Client&)>& predicate,
    Reply code,
    const std::string& text) {
  for (auto& [id, client] : clients_) {
    if (client.wait && predicate(client)) {
      (void)take_wait(client);
      reply(client, code, text);
    }
  }
}

void StoreCore::wake_waiters(const std::string& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    return;
  }
  const std::set<std::uint64_t> ids = std::move(found->second);
  waiting_.erase(found);
  for (const std::uint64_t id : ids) {
    Client& client = clients_.at(id);
    const auto missing = data_.first_missing(client.wait->request.keys);
    if (missing) {
      client.wait->key = *missing;
      waiting_[*missing].insert(id);
    } else {
      end_wait(client);
    }
  }
}

}  // namespace accelerate
