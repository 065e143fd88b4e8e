// SPDX-License-Identifier: Apache-2.0
#include "launch/store_server.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/quiet_thread.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/store_data.h"

namespace accelerate {
namespace {

using store::Hello;
using store::Reader;
using store::Reply;
using store::Request;
using store::Role;
using store::Writer;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxText = 4096;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

struct Client {
  std::uint64_t id = 0;
  UniqueFd socket;
  std::string address;
  std::string nonce;
  bool is_known = false;  // Has proved the secret.
  bool is_leaving = false;
  Hello hello;
  Clock::time_point since;
  std::string incoming;
  std::string outgoing;
  bool wants_write = false;
  // A request that waits for keys.
  std::optional<StoreOutcome> pending;
  Clock::time_point pending_since;
  std::string pending_key;
};

struct Rank {
  int connections = 0;
  bool was_connected = false;
  std::string status;
  std::string failure;
  Clock::time_point failed_at;
};

}  // namespace

class StoreServer::Impl {
 public:
  explicit Impl(StoreServerOptions options) : options_(std::move(options)) {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    watch(wake_.get(), kWake, EPOLLIN);
    for (Endpoint endpoint : options_.endpoints) {
      UniqueFd listener = listen_on(endpoint);
      if (!endpoint.is_unix) {
        endpoint.port = bound_port(listener.get());
      }
      watch(listener.get(), kListener + listeners_.size(), EPOLLIN);
      bound_.push_back(endpoint);
      listeners_.push_back(std::move(listener));
    }
    thread_ = start_quiet_thread([this] { serve(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    stopping_ = true;
    wake();
    thread_.join();
    for (const Endpoint& endpoint : bound_) {
      if (endpoint.is_unix) {
        ::unlink(endpoint.host.c_str());
      }
    }
  }

  void answer(std::uint64_t id, std::string_view payload) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = clients_.find(id);
      if (found == clients_.end()) {
        return;
      }
      reply(found->second, Reply::ok, payload);
    }
    wake();
  }

  void start_generation(std::uint32_t generation) {
    {
      const std::lock_guard lock(mutex_);
      generation_ = generation;
      abort_reason_.reset();
      data_.clear();
      waiting_.clear();
      ranks_.clear();
      for (auto& [id, client] : clients_) {
        if (is_stale(client) && client.pending) {
          client.pending.reset();
          reply(client, Reply::stale, "");
        }
      }
    }
    wake();
  }

  void abort(const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      abort_reason_ = reason;
      waiting_.clear();
      for (auto& [id, client] : clients_) {
        if (client.pending) {
          client.pending.reset();
          reply(client, Reply::aborted, reason);
        }
      }
    }
    wake();
  }

  std::vector<RankStatus> status() const {
    const std::lock_guard lock(mutex_);
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
      if (client.pending && client.hello.role == Role::worker &&
          found != result.end()) {
        found->second.waiting_for = client.pending_key;
        found->second.waiting_seconds = seconds_since(client.pending_since);
      }
    }
    std::vector<RankStatus> list;
    for (auto& [number, entry] : result) {
      list.push_back(std::move(entry));
    }
    return list;
  }

  Endpoint endpoint(std::size_t index) const { return bound_.at(index); }

  void set_handler(ExchangeHandler handler) {
    const std::lock_guard lock(mutex_);
    exchange_handler_ = std::move(handler);
  }
  void set_handler(LossHandler handler) {
    const std::lock_guard lock(mutex_);
    loss_handler_ = std::move(handler);
  }
  void set_handler(RefusalHandler handler) {
    const std::lock_guard lock(mutex_);
    refusal_handler_ = std::move(handler);
  }

 private:
  static constexpr std::uint64_t kWake = 0;
  static constexpr std::uint64_t kListener = 1;
  static constexpr std::uint64_t kFirstClient = 1000;

  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
  }

  void watch(int fd, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw IoError(str_cat("cannot watch a socket: ", errno_text(errno)));
    }
  }

  void serve() {
    while (!stopping_) {
      epoll_event events[64];
      const int ready =
          ::epoll_wait(epoll_.get(), events, 64, milliseconds_to_next());
      const std::lock_guard lock(mutex_);
      for (int i = 0; i < ready; ++i) {
        handle_event(events[i]);
      }
      end_overdue();
      flush_all();
    }
    say_last_words();
  }

  // Answers that were given before the end must still arrive; they fit into
  // the sockets' buffers, so this is one look for all but a stuck client.
  void say_last_words() {
    const std::lock_guard lock(mutex_);
    for (int attempt = 0; attempt < 20; ++attempt) {
      flush_all();
      const bool done =
          std::all_of(clients_.begin(), clients_.end(), [](const auto& entry) {
            return entry.second.outgoing.empty();
          });
      if (done) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  void handle_event(const epoll_event& event) {
    const std::uint64_t id = event.data.u64;
    if (id == kWake) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof(count));
    } else if (id < kFirstClient) {
      accept_from(listeners_[id - kListener].get());
    } else if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
      read_from(id);
    }
  }

  void accept_from(int listener) {
    while (true) {
      UniqueFd socket(
          ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        return;
      }
      const std::uint64_t id = next_id_++;
      Client client;
      client.id = id;
      client.address = peer_text(socket.get());
      client.nonce = random_bytes(store::kNonceBytes);
      client.since = Clock::now();
      client.outgoing = str_cat(store::kMagic, client.nonce);
      watch_connection(socket.get());
      watch(socket.get(), id, EPOLLIN | EPOLLRDHUP);
      client.socket = std::move(socket);
      strangers_.insert(id);
      clients_.emplace(id, std::move(client));
    }
  }

  // Enough strangers: the next ones wait in the kernel's queue until some have
  // proved the secret or had their time. Workers that start together are
  // strangers for a moment, too, so nobody is sent away at once.
  void pause_listening() {
    is_paused_ = true;
    for (const UniqueFd& listener : listeners_) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener.get(), nullptr);
    }
  }

  void resume_listening() {
    is_paused_ = false;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      watch(listeners_[i].get(), kListener + i, EPOLLIN);
    }
  }

  // How long a stranger may stay: less when others wait for its place.
  std::chrono::milliseconds patience() const {
    constexpr std::chrono::milliseconds kWhenCrowded{1000};
    return is_paused_ ? std::min(kWhenCrowded, options_.hello_timeout)
                      : options_.hello_timeout;
  }

  void read_from(std::uint64_t id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) {
      return;
    }
    Client& client = found->second;
    // One read per event: a fast sender must not keep the others waiting.
    char buffer[65536];
    const ssize_t got = ::recv(client.socket.get(), buffer, sizeof(buffer), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      drop(id);
      return;
    }
    if (got > 0) {
      client.incoming.append(buffer, static_cast<std::size_t>(got));
    }
    if (!take_messages(client)) {
      drop(id);
    }
  }

  // Handles what has arrived whole. False: the client has to go.
  bool take_messages(Client& client) {
    if (!client.is_known) {
      if (client.incoming.size() < store::kHelloBytes) {
        return true;
      }
      if (!admit(client)) {
        return false;
      }
    }
    while (client.incoming.size() >= 5) {
      Reader reader(client.incoming);
      const auto length = reader.number<std::uint32_t>();
      if (length < 1 || length > store::kMaxFrame) {
        return false;
      }
      if (client.incoming.size() < 4 + std::size_t{length}) {
        return true;
      }
      const auto request = static_cast<Request>(reader.number<std::uint8_t>());
      const std::string payload(reader.raw(length - 1));
      client.incoming.erase(0, 4 + std::size_t{length});
      if (request == Request::bye) {
        client.is_leaving = true;
        return false;
      }
      // One request at a time is the rule; a second one during a wait is not
      // ours to guess at.
      if (client.pending) {
        return false;
      }
      handle_request(client, request, payload);
    }
    return true;
  }

  bool admit(Client& client) {
    Reader reader(client.incoming);
    const std::string nonce(reader.raw(store::kNonceBytes));
    Hello hello;
    hello.role = static_cast<Role>(reader.number<std::uint8_t>());
    hello.rank = reader.number<std::uint32_t>();
    hello.generation = reader.number<std::uint32_t>();
    const std::string proof(reader.raw(store::kMacBytes));
    client.incoming.erase(0, store::kHelloBytes);
    const auto expected = hmac_sha256(
        options_.secret,
        store::signed_text("client", client.nonce, nonce, hello));
    if (!equal_in_constant_time(proof, as_text(expected))) {
      refuse(client, "wrong secret");
      return false;
    }
    if (hello.role != Role::worker && hello.role != Role::machine) {
      refuse(client, "neither a worker nor a machine");
      return false;
    }
    client.hello = hello;
    client.is_known = true;
    strangers_.erase(client.id);
    if (is_stale(client)) {
      reply(client, Reply::stale, "an earlier start of the workers");
      return true;
    }
    if (hello.role == Role::worker) {
      Rank& rank = ranks_[hello.rank];
      ++rank.connections;
      rank.was_connected = true;
    }
    const auto mine = hmac_sha256(
        options_.secret,
        store::signed_text("server", client.nonce, nonce, hello));
    reply(client, Reply::ok, as_text(mine));
    return true;
  }

  void refuse(const Client& client, const std::string& why) {
    if (refusal_handler_) {
      refusal_handler_(client.address, why);
    }
  }

  bool is_stale(const Client& client) const {
    return client.hello.role == Role::worker &&
           client.hello.generation != generation_;
  }

  void handle_request(
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

  void handle_exchange(Client& client, const std::string& payload) {
    if (!exchange_handler_) {
      reply(client, Reply::refused, "this job has one machine");
      return;
    }
    const auto answer = exchange_handler_(
        {client.id, client.hello.rank, client.address, payload});
    if (answer) {
      reply(client, Reply::ok, *answer);
    }
  }

  // Requests that are about the rank, not about keys.
  bool handle_notice(
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
      case Request::departed:
        reply(client, Reply::ok, departed());
        return true;
      default:
        return false;
    }
  }

  std::string departed() const {
    std::vector<std::uint32_t> gone;
    for (const auto& [number, rank] : ranks_) {
      if (rank.was_connected && rank.connections == 0) {
        gone.push_back(number);
      }
    }
    Writer writer;
    writer.number(static_cast<std::uint32_t>(gone.size()));
    for (const std::uint32_t number : gone) {
      writer.number(number);
    }
    return writer.take();
  }

  void begin_wait(Client& client, StoreOutcome outcome) {
    const auto missing = data_.first_missing(outcome.keys);
    client.pending = std::move(outcome);
    client.pending_since = Clock::now();
    if (!missing) {
      end_wait(client);
      return;
    }
    client.pending_key = *missing;
    waiting_[*missing].push_back(client.id);
  }

  void end_wait(Client& client) {
    const StoreOutcome outcome = std::move(*client.pending);
    client.pending.reset();
    reply(
        client,
        Reply::ok,
        outcome.wants_value ? *data_.find(outcome.keys[0]) : std::string());
  }

  void wake_waiters(const std::string& key) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) {
      return;
    }
    const std::vector<std::uint64_t> ids = std::move(found->second);
    waiting_.erase(found);
    for (const std::uint64_t id : ids) {
      const auto client = clients_.find(id);
      if (client == clients_.end() || !client->second.pending ||
          client->second.pending_key != key) {
        continue;
      }
      const auto missing = data_.first_missing(client->second.pending->keys);
      if (missing) {
        client->second.pending_key = *missing;
        waiting_[*missing].push_back(id);
      } else {
        end_wait(client->second);
      }
    }
  }

  static Clock::time_point deadline_of(const Client& client) {
    // A day is the longest wait anybody can mean; it keeps the sum in range.
    constexpr std::int64_t kDay = 86400000;
    return client.pending_since +
           std::chrono::milliseconds(
               std::clamp<std::int64_t>(client.pending->timeout_ms, 0, kDay));
  }

  void end_overdue() {
    const auto now = Clock::now();
    for (auto& [id, client] : clients_) {
      if (client.pending && deadline_of(client) <= now) {
        client.pending.reset();
        reply(client, Reply::timeout, str_cat("`", client.pending_key, "`"));
      }
    }
    while (!strangers_.empty() &&
           clients_.at(*strangers_.begin()).since + patience() <= now) {
      drop(*strangers_.begin());
    }
    if (is_paused_ && strangers_.size() < options_.max_strangers) {
      resume_listening();
    }
  }

  int milliseconds_to_next() const {
    const std::lock_guard lock(mutex_);
    auto next = Clock::now() + std::chrono::seconds(60);
    for (const auto& [id, client] : clients_) {
      if (client.pending) {
        next = std::min(next, deadline_of(client));
      }
    }
    if (!strangers_.empty()) {
      next =
          std::min(next, clients_.at(*strangers_.begin()).since + patience());
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        next - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(0, left.count() + 1));
  }

  static void reply(Client& client, Reply code, std::string_view payload) {
    client.outgoing += store::frame(static_cast<std::uint8_t>(code), payload);
  }

  void flush_all() {
    std::vector<std::uint64_t> gone;
    for (auto& [id, client] : clients_) {
      if (!client.outgoing.empty() && !flush(client)) {
        gone.push_back(id);
      }
    }
    for (const std::uint64_t id : gone) {
      drop(id);
    }
  }

  bool flush(Client& client) {
    while (!client.outgoing.empty()) {
      const ssize_t sent = ::send(
          client.socket.get(),
          client.outgoing.data(),
          client.outgoing.size(),
          MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        return false;
      }
      if (sent < 0) {
        break;
      }
      client.outgoing.erase(0, static_cast<std::size_t>(sent));
    }
    const bool wants_write = !client.outgoing.empty();
    if (wants_write != client.wants_write) {
      client.wants_write = wants_write;
      epoll_event event{};
      event.events = EPOLLIN | EPOLLRDHUP;
      event.events |= wants_write ? static_cast<std::uint32_t>(EPOLLOUT) : 0U;
      event.data.u64 = client.id;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.socket.get(), &event);
    }
    return true;
  }

  void drop(std::uint64_t id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) {
      return;
    }
    const Client& client = found->second;
    strangers_.erase(id);
    if (client.is_known && client.hello.role == Role::worker &&
        !is_stale(client)) {
      --ranks_[client.hello.rank].connections;
    }
    const bool machine = client.is_known && client.hello.role == Role::machine;
    clients_.erase(found);
    if (machine && loss_handler_) {
      loss_handler_(id);
    }
  }

  StoreServerOptions options_;
  std::vector<Endpoint> bound_;
  std::vector<UniqueFd> listeners_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::atomic<bool> stopping_ = false;

  // Everything below is guarded by the mutex.
  // Recursive: a handler may answer other machines from within its call.
  mutable std::recursive_mutex mutex_;
  StoreData data_;
  std::unordered_map<std::uint64_t, Client> clients_;
  std::set<std::uint64_t> strangers_;  // Oldest first.
  bool is_paused_ = false;
  std::unordered_map<std::string, std::vector<std::uint64_t>> waiting_;
  std::map<std::uint32_t, Rank> ranks_;
  std::optional<std::string> abort_reason_;
  ExchangeHandler exchange_handler_;
  LossHandler loss_handler_;
  RefusalHandler refusal_handler_;
  std::uint32_t generation_ = 0;
  std::uint64_t next_id_ = kFirstClient;

  std::thread thread_;
};

StoreServer::StoreServer(StoreServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {
}
StoreServer::~StoreServer() = default;

void StoreServer::on_exchange(ExchangeHandler handler) {
  impl_->set_handler(std::move(handler));
}
void StoreServer::on_machine_lost(LossHandler handler) {
  impl_->set_handler(std::move(handler));
}
void StoreServer::on_refusal(RefusalHandler handler) {
  impl_->set_handler(std::move(handler));
}
void StoreServer::answer(std::uint64_t client, std::string_view payload) {
  impl_->answer(client, payload);
}
Endpoint StoreServer::endpoint(std::size_t index) const {
  return impl_->endpoint(index);
}
void StoreServer::start_generation(std::uint32_t generation) {
  impl_->start_generation(generation);
}
void StoreServer::abort(const std::string& reason) {
  impl_->abort(reason);
}
std::vector<RankStatus> StoreServer::status() const {
  return impl_->status();
}

}  // namespace accelerate
