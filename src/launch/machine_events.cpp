// SPDX-License-Identifier: Apache-2.0
#include "launch/machine_events.h"

#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace accelerate {

MachineEvents::MachineEvents() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
}

void MachineEvents::add_failure(Failure failure) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) {
    failure_ = std::move(failure);
  }
  notify();
}

void MachineEvents::set_all_done() {
  const std::scoped_lock lock(mutex_);
  all_done_ = true;
  notify();
}

std::optional<Failure> MachineEvents::take_failure() {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = 0;
  (void)!::read(fd_.get(), &count, sizeof(count));
  return std::exchange(failure_, std::nullopt);
}

bool MachineEvents::all_done() const {
  const std::scoped_lock lock(mutex_);
  return all_done_;
}

void MachineEvents::reset() {
  const std::scoped_lock lock(mutex_);
  failure_.reset();
  all_done_ = false;
}

void MachineEvents::notify() const {
  const std::uint64_t count = 1;
  (void)!::write(fd_.get(), &count, sizeof(count));
}

Failure disconnected_machine(
    const std::string& name, std::int64_t rank, double seconds) {
  Failure failure;
  failure.rank = rank;
  failure.exit_code = 1;
  failure.seconds = seconds;
  failure.disconnected_machine = name;
  return failure;
}

std::string event_text(const char* type, Json body) {
  body["type"] = type;
  return body.dump();
}

}  // namespace accelerate
