// SPDX-License-Identifier: Apache-2.0
#include "launch/interruptible_rendezvous.h"

#include <csignal>
#include <cstdlib>
#include <future>
#include <utility>

#include "accelerate/error.h"

namespace accelerate {

std::optional<Generation> InterruptibleRendezvous::run(std::int64_t number) {
  auto rendezvous = std::async(
      std::launch::async, [&] { return control_.start_generation(number); });
  while (rendezvous.wait_for(std::chrono::milliseconds(20)) !=
         std::future_status::ready) {
    handle_signals();
    exit_when_stuck();
    tick();
  }
  handle_signals();
  try {
    auto generation = rendezvous.get();
    return interrupt_ == 0 ? std::optional(std::move(generation))
                           : std::nullopt;
  } catch (const Error&) {
    if (interrupt_ == 0) {
      throw;
    }
    return std::nullopt;
  }
}

// A pending connect cannot be canceled. Exiting is safe, because no workers are
// running yet and the guardian cleans up.
void InterruptibleRendezvous::exit_when_stuck() const {
  constexpr std::chrono::seconds kGrace(1);
  if (interrupt_ != 0 && Clock::now() - interrupted_at_ > kGrace) {
    std::_Exit(128 + interrupt_);
  }
}

void InterruptibleRendezvous::tick() {
  if (Clock::now() - ticked_at_ > std::chrono::seconds(1)) {
    ticked_at_ = Clock::now();
    control_.tick();
  }
}

void InterruptibleRendezvous::handle_signals() {
  while (const auto received = signals_.take()) {
    switch (received->signal) {
      case SIGQUIT:
        output_.announce(
            "status: no workers are running; waiting for the other machines");
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
        interrupt_ = received->signal;
        interrupted_at_ = Clock::now();
        control_.cancel();
        break;
      default:
        break;
    }
  }
}

}  // namespace accelerate
