// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/engine.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {

std::shared_ptr<Engine> Engine::start(std::shared_ptr<Group> group) {
  auto engine = std::make_shared<Engine>(std::move(group));
  // The thread also owns the engine: it may hold the last reference.
  engine->thread_ = std::thread([engine] { engine->serve(); });
  engine->closer_ =
      engine->group_->runtime.before_finalize([weak = std::weak_ptr(engine)] {
        if (const auto alive = weak.lock()) {
          alive->close();
        }
      });
  return engine;
}

Engine::Engine(std::shared_ptr<Group> group)
    : group_(std::move(group)), messages_(group_) {
}

void Engine::require_open() const {
  if (closing_) {
    throw StateError(
        str_cat("group `", group_->name, "` is closed"),
        "keep the group alive until the last call has returned, and do not "
        "use it while the program is exiting");
  }
}

c10::intrusive_ptr<MpiWork> Engine::submit(
    const std::function<Job(std::uint64_t)>& make, bool in_caller) {
  std::unique_lock guard(mutex_);
  require_open();
  Job job = make(++sequence_);
  auto work = job.work;
  if (in_caller && !busy_ && jobs_.empty()) {
    busy_ = true;
    guard.unlock();
    run(job);
    guard.lock();
    busy_ = false;
  } else {
    jobs_.push_back(std::move(job));
  }
  guard.unlock();
  wake_.notify_all();
  return work;
}

void Engine::post(Message message) {
  {
    const std::lock_guard guard(mutex_);
    require_open();
    messages_.add(std::move(message));
  }
  wake_.notify_all();
}

std::uint64_t Engine::sequence() {
  const std::lock_guard guard(mutex_);
  return sequence_;
}

bool Engine::has_turn() const {
  return !jobs_.empty() && !busy_;
}

bool Engine::is_finished() const {
  return closing_ && jobs_.empty() && !busy_ && messages_.empty();
}

void Engine::serve() {
  // MPI has no way to wake a thread, so pending messages are polled.
  constexpr auto kPollMessages = std::chrono::microseconds(200);
  std::unique_lock guard(mutex_);
  while (!is_finished()) {
    if (has_turn()) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      guard.unlock();
      run(job);
      guard.lock();
      busy_ = false;
    } else if (!messages_.empty()) {
      guard.unlock();
      messages_.poll();
      guard.lock();
      wake_.wait_for(guard, kPollMessages, [this] { return has_turn(); });
    } else {
      wake_.wait(guard, [this] {
        return has_turn() || !messages_.empty() || is_finished();
      });
    }
  }
  if (!group_->health.broken() && group_->runtime.alive()) {
    group_->departure_notice->send(sequence_);
  }
}

void Engine::run(Job& job) {
  const at::NoGradGuard no_grad;
  std::exception_ptr error;
  try {
    group_->health.require_usable();
    Operation operation = job.work->operation();
    operation.deadline = Clock::now() + operation.timeout;
    Collectives collectives(
        *group_, operation, [this] { messages_.poll(); }, job.owner);
    job.body(collectives);
  } catch (const std::exception& reason) {
    group_->health.fail(reason.what());
    group_->runtime.skip_finalize();
    error = std::current_exception();
  }
  job.work->complete(error);
}

void Engine::close() {
  {
    const std::lock_guard guard(mutex_);
    if (std::exchange(closing_, true)) {
      return;
    }
  }
  wake_.notify_all();
  group_->runtime.forget(closer_);
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Engine::abandon() {
  std::unique_lock guard(mutex_);
  const bool open = busy_ || !jobs_.empty() || !messages_.empty();
  guard.unlock();
  if (open) {
    group_->health.fail(
        "the group was destroyed while operations were pending");
    group_->runtime.skip_finalize();
  }
  close();
}

}  // namespace accelerate::mpi
