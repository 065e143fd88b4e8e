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
  std::vector<std::pair<c10::intrusive_ptr<MpiWork>, std::exception_ptr>>
      finished;
  {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock()) {
      return;
    }
    for (auto message = open_.begin(); message != open_.end();) {
      std::exception_ptr error;
      if (!is_finished(*message, error)) {
        ++message;
        continue;
      }
      finished.emplace_back(std::move(message->work), error);
      message = open_.erase(message);
    }
  }
  // The lock is released because callbacks of the caller run here.
  for (auto& [work, error] : finished) {
    work->complete(error);
  }
}

bool Messages::is_finished(Message& message, std::exception_ptr& error) {
  try {
    if (group_->test(message.requests, message.work->operation())) {
      message.work->set_source(message.requests.source());
      const at::NoGradGuard no_grad;
      message.finish();
      return true;
    }
    group_->health.require_usable();
    check_other_rank(message);
    check_deadline(message);
    return false;
  } catch (const std::exception& reason) {
    group_->health.fail(reason.what());
    group_->runtime.skip_finalize();
    error = std::current_exception();
    return true;
  }
}

// A message may arrive after the departure notice of its sender; one second is
// far more than it needs.
void Messages::check_other_rank(Message& message) const {
  constexpr auto kGrace = std::chrono::seconds(1);
  constexpr auto kCheckInterval = std::chrono::milliseconds(20);
  const auto now = Clock::now();
  if (!message.other_rank || *message.other_rank == group_->rank ||
      now < message.next_check) {
    return;
  }
  if (!group_->departure_notice->left_after(*message.other_rank)) {
    message.next_check = now + kCheckInterval;
    return;
  }
  if (message.other_rank_left) {
    throw DistributedError(
        str_cat(
            group_->title(message.work->operation()),
            ": ",
            group_->name_members({*message.other_rank}),
            " left the group"),
        "match each `send` with a `recv`, and keep the group alive until all "
        "messages have been delivered");
  }
  message.other_rank_left = true;
  message.next_check = now + kGrace;
}

void Messages::check_deadline(Message& message) const {
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
          " is still waiting for ",
          group_->name_members(message.requests.waiting_for())),
      "match each `send` with a `recv`; raise the timeout if the other rank "
      "is just slow");
}

}  // namespace accelerate::mpi
