// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/messages.h"

#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {

void Messages::add(Message message) {
  const std::lock_guard guard(mutex_);
  open_.push_back(std::move(message));
}

bool Messages::empty() const {
  const std::lock_guard guard(mutex_);
  return open_.empty();
}

void Messages::poll() {
  std::vector<std::pair<c10::intrusive_ptr<MpiWork>, std::exception_ptr>> over;
  {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock()) {
      return;
    }
    for (auto message = open_.begin(); message != open_.end();) {
      std::exception_ptr error;
      if (!is_over(*message, error)) {
        ++message;
        continue;
      }
      over.emplace_back(std::move(message->work), error);
      message = open_.erase(message);
    }
  }
  // Callbacks of the caller run here, so no lock is held.
  for (auto& [work, error] : over) {
    work->complete(error);
  }
}

bool Messages::is_over(Message& message, std::exception_ptr& error) {
  try {
    if (group_->test(message.requests, message.work->operation())) {
      message.work->set_source(message.requests.source());
      const at::NoGradGuard no_grad;
      message.finish();
      return true;
    }
    group_->health.require_usable();
    check_peer(message);
    check_time(message);
    return false;
  } catch (const std::exception& reason) {
    group_->health.fail(reason.what());
    group_->runtime.give_up_finalize();
    error = std::current_exception();
    return true;
  }
}

// A message may still be on its way when the farewell of its sender is here;
// a second is far more than it needs.
void Messages::check_peer(Message& message) const {
  constexpr auto kGrace = std::chrono::seconds(1);
  constexpr auto kLookEvery = std::chrono::milliseconds(20);
  const auto now = Clock::now();
  if (!message.peer || *message.peer == group_->rank ||
      now < message.look_at_peer) {
    return;
  }
  if (!group_->farewell->left_after(*message.peer)) {
    message.look_at_peer = now + kLookEvery;
    return;
  }
  if (message.peer_left) {
    throw DistributedError(
        str_cat(
            group_->title(message.work->operation()),
            ": ",
            group_->name_peers({*message.peer}),
            " left the group"),
        "match each `send` with a `recv`, and keep the group until the last");
  }
  message.peer_left = true;
  message.look_at_peer = now + kGrace;
}

void Messages::check_time(Message& message) const {
  if (Clock::now() < message.deadline) {
    return;
  }
  throw DistributedError(
      str_cat(
          group_->title(message.work->operation()),
          " did not finish within ",
          message.work->operation().timeout.count(),
          " ms: rank ",
          group_->runtime.rank(),
          " still waits for ",
          group_->name_peers(message.requests.waiting_for())),
      "match each `send` with a `recv`; raise the timeout if the other rank "
      "is only slow");
}

}  // namespace accelerate::mpi
