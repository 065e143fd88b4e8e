// SPDX-License-Identifier: Apache-2.0
#include "launch/interruptible_meeting.h"

#include <csignal>
#include <cstdlib>
#include <future>
#include <utility>

#include "accelerate/error.h"

namespace accelerate {

std::optional<std::vector<WorkerCommand>> InterruptibleMeeting::run(
    std::int64_t restart) {
  auto meeting = std::async(
      std::launch::async, [&] { return options_.commands(restart); });
  while (meeting.wait_for(std::chrono::milliseconds(20)) !=
         std::future_status::ready) {
    take_signals();
    end_when_stuck();
    tick();
  }
  take_signals();
  try {
    auto commands = meeting.get();
    return interrupt_ == 0 ? std::optional(std::move(commands)) : std::nullopt;
  } catch (const Error&) {
    if (interrupt_ == 0) {
      throw;
    }
    return std::nullopt;
  }
}

// A connection that is being made cannot be called off. There are no workers
// yet, and the guardian clears up behind us.
void InterruptibleMeeting::end_when_stuck() const {
  constexpr std::chrono::seconds kGrace(1);
  if (interrupt_ != 0 && Clock::now() - interrupted_at_ > kGrace) {
    std::_Exit(128 + interrupt_);
  }
}

void InterruptibleMeeting::tick() {
  if (Clock::now() - ticked_at_ > std::chrono::seconds(1)) {
    ticked_at_ = Clock::now();
    options_.others->tick();
  }
}

void InterruptibleMeeting::take_signals() {
  while (const auto arrival = signals_.take()) {
    switch (arrival->signal) {
      case SIGQUIT:
        output_.announce(
            "status: no workers run; waiting for the other machines");
        break;
      case SIGTSTP:
        ::raise(SIGSTOP);
        break;
      case SIGINT:
      case SIGTERM:
      case SIGHUP:
        if (interrupt_ != 0) {
          std::_Exit(128 + interrupt_);
        }
        interrupt_ = arrival->signal;
        interrupted_at_ = Clock::now();
        options_.others->cancel_meeting();
        break;
      default:
        break;
    }
  }
}

}  // namespace accelerate
