// SPDX-License-Identifier: Apache-2.0
#include "base/bus_error.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include <unistd.h>

#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {

/// An element of a list that the signal handler reads without a lock. Elements
/// are never freed; they are reused after their mapping has ended.
struct NamedMapping::Entry {
  std::atomic<std::uintptr_t> begin = 0;  ///< 0 if not in use.
  std::atomic<std::uintptr_t> end = 0;
  std::string message;
  Entry* next = nullptr;
};

namespace {

std::atomic<NamedMapping::Entry*> first_entry = nullptr;
struct sigaction previous_action{};

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

std::mutex& entries_mutex() {
  static auto* mutex = new std::mutex;  // Never destroyed: used until exit.
  return *mutex;
}

// The faulting thread is using the mapping, so the entry of this mapping does
// not change. Other threads may change other entries; the second read of
// `begin` detects this.
const NamedMapping::Entry* entry_at(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const auto* entry = first_entry.load(std::memory_order_acquire);
       entry != nullptr;
       entry = entry->next) {
    const std::uintptr_t begin = entry->begin.load(std::memory_order_acquire);
    const std::uintptr_t end = entry->end.load(std::memory_order_acquire);
    if (begin != 0 && begin <= at && at < end &&
        begin == entry->begin.load(std::memory_order_acquire)) {
      return entry;
    }
  }
  return nullptr;
}

void run_previous(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
    return;
  }
  if (previous_action.sa_handler != SIG_DFL &&
      previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
    return;
  }
  const bool was_sent = info->si_code <= 0;  // By `kill`, not by a fault.
  if (previous_action.sa_handler == SIG_IGN && was_sent) {
    return;
  }
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  if (was_sent) {
    ::raise(signal);  // Pending until this handler returns.
  }
  // After a fault, the access is repeated and ends the program.
}

// Calls only functions that are async-signal-safe.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  static std::atomic_flag printed = ATOMIC_FLAG_INIT;
  const int saved_errno = errno;
  const NamedMapping::Entry* entry =
      info->si_code > 0 ? entry_at(info->si_addr) : nullptr;
  if (entry != nullptr && !printed.test_and_set()) {
    const std::string& text = entry->message;
    (void)!::write(STDERR_FILENO, text.data(), text.size());
  }
  errno = saved_errno;
  run_previous(signal, info, context);
}

void install_handler() {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, nullptr, &previous_action);
  ::sigaction(SIGBUS, &action, nullptr);
}

NamedMapping::Entry* unused_entry() {
  for (auto* entry = first_entry.load(); entry != nullptr;
       entry = entry->next) {
    if (entry->begin.load() == 0) {
      return entry;
    }
  }
  auto* entry = new NamedMapping::Entry;
  entry->next = first_entry.load();
  first_entry.store(entry, std::memory_order_release);
  return entry;
}

}  // namespace

NamedMapping::NamedMapping(
    const void* memory, std::size_t size, const std::filesystem::path& path) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(entries_mutex());
  entry_ = unused_entry();
  entry_->message = str_cat(
      "error: ",
      printable(path.string()),
      " cannot be read: it became shorter while this program was using it, or "
      "its disk failed\nhint: start this program again; to replace a file that "
      "is in use, rename the new file over the old file, and do not change the "
      "old file in place\n");
  entry_->end.store(begin + size, std::memory_order_release);
  entry_->begin.store(begin, std::memory_order_release);
}

NamedMapping::NamedMapping(NamedMapping&& other) noexcept
    : entry_(std::exchange(other.entry_, nullptr)) {
}

NamedMapping& NamedMapping::operator=(NamedMapping&& other) noexcept {
  if (this != &other) {
    end();
    entry_ = std::exchange(other.entry_, nullptr);
  }
  return *this;
}

void NamedMapping::end() noexcept {
  if (entry_ != nullptr) {
    std::exchange(entry_, nullptr)->begin.store(0, std::memory_order_release);
  }
}

}  // namespace accelerate
