// SPDX-License-Identifier: Apache-2.0
#include "launch/store_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/thread_without_signals.h"
#include "launch/connections.h"

namespace accelerate {

class StoreServer::Impl {
 public:
  explicit Impl(const StoreServerOptions& options)
      : core_(
            options.secret,
            options.run_id,
            [this](std::uint64_t id, std::string_view bytes) {
              connections_.send(id, bytes);
            }),
        connections_(
            options.endpoints,
            {options.hello_timeout,
             options.crowded_hello_timeout,
             options.max_unauthenticated},
            core_) {
    core_.expects_machines = options.expects_machines;
    thread_ = start_thread_without_signals([this] { serve(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    stopping_ = true;
    connections_.wake();
    thread_.join();
  }

  Endpoint endpoint(std::size_t index) const {
    return connections_.endpoints().at(index);
  }

  // Runs `action` on the core from another thread. The server's thread sends
  // the answers.
  template <typename Action>
  auto with_core(Action action) {
    struct Wake {
      const Connections& connections;
      ~Wake() { connections.wake(); }
    } wake{connections_};
    const std::lock_guard lock(mutex_);
    return action(core_);
  }

 private:
  void serve() {
    while (!stopping_) {
      const auto ready = connections_.wait(next_deadline());
      const std::lock_guard lock(mutex_);
      connections_.handle(ready);
      core_.end_overdue();
      (void)connections_.flush();
    }
    flush_pending_answers();
  }

  Connections::Clock::time_point next_deadline() const {
    const std::lock_guard lock(mutex_);
    auto next = Connections::Clock::now() + std::chrono::seconds(60);
    for (const auto& deadline :
         {connections_.next_deadline(), core_.next_deadline()}) {
      next = std::min(next, deadline.value_or(next));
    }
    return next;
  }

  // Answers from before the shutdown must still reach the clients. The answers
  // fit into the sockets' buffers, so one flush is enough unless a client is
  // stuck.
  void flush_pending_answers() {
    const std::lock_guard lock(mutex_);
    for (int attempt = 0; attempt < 20 && !connections_.flush(); ++attempt) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // Recursive, because a handler may answer other machines.
  mutable std::recursive_mutex mutex_;
  StoreCore core_;
  Connections connections_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

StoreServer::StoreServer(const StoreServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {
}
StoreServer::~StoreServer() = default;

void StoreServer::on_exchange(ExchangeHandler handler) {
  impl_->with_core(
      [&](StoreCore& core) { core.set_exchange(std::move(handler)); });
}
void StoreServer::on_machine_disconnect(DisconnectHandler handler) {
  impl_->with_core([&](StoreCore& core) {
    core.on_machine_disconnect = std::move(handler);
  });
}
void StoreServer::on_refusal(RefusalHandler handler) {
  impl_->with_core(
      [&](StoreCore& core) { core.set_refusal(std::move(handler)); });
}
void StoreServer::answer(std::uint64_t client, std::string_view payload) {
  impl_->with_core([&](StoreCore& core) { core.answer(client, payload); });
}
Endpoint StoreServer::endpoint(std::size_t index) const {
  return impl_->endpoint(index);
}
void StoreServer::start_generation(std::uint32_t generation) {
  impl_->with_core([&](StoreCore& core) { core.start_generation(generation); });
}
void StoreServer::abort(const std::string& reason) {
  impl_->with_core([&](StoreCore& core) { core.abort(reason); });
}
std::vector<RankStatus> StoreServer::status() const {
  return impl_->with_core([](StoreCore& core) { return core.status(); });
}

}  // namespace accelerate
