// SPDX-License-Identifier: Apache-2.0
#include "comm/shm_barrier.h"

#include <atomic>
#include <climits>
#include <thread>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace accelerate {
namespace {

// Number of spins, about 20 µs, before a rank sleeps. This is longer than a
// small collective takes, but too short to cause noticeable CPU load.
constexpr int kSpins = 400;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// With more ranks than cores, spinning would only take CPU time from the rank
// that all other ranks wait for.
int spins_for(int size) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return size <= cores ? kSpins : 0;
}

}  // namespace

// `arrived` counts rounds and wraps around. Because of `sleepers`, an arriving
// rank makes no system call when no rank sleeps. Each slot has its own pair of
// cache lines, so that ranks do not slow each other down.
struct alignas(128) ShmBarrier::Slot {
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> sleepers;
};

std::size_t ShmBarrier::bytes(int size) {
  return whole_pages(sizeof(Slot) * static_cast<std::size_t>(size));
}

ShmBarrier::ShmBarrier(
    std::shared_ptr<SharedMemory> memory, std::byte* base, int rank, int size)
    : memory_(std::move(memory)),
      slots_(reinterpret_cast<Slot*>(base)),
      rank_(rank),
      size_(size),
      spins_(spins_for(size)) {
}

void ShmBarrier::arrive() {
  ++round_;
  Slot& slot = slots_[rank_];
  slot.arrived.store(round_, std::memory_order_seq_cst);
  if (slot.sleepers.load(std::memory_order_seq_cst) != 0) {
    ::syscall(
        SYS_futex, &slot.arrived, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool ShmBarrier::has_arrived(int rank) const {
  const auto arrived = slots_[rank].arrived.load(std::memory_order_acquire);
  return static_cast<std::int32_t>(arrived - round_) >= 0;
}

bool ShmBarrier::spin(int rank) const {
  for (int i = 0; i < spins_; ++i) {
    if (has_arrived(rank)) {
      return true;
    }
    relax();
  }
  return has_arrived(rank);
}

void ShmBarrier::wait(const Call& call, const WaitLimits& limits) {
  int next = 0;
  while (next < size_ && spin(next)) {
    ++next;
  }
  if (next == size_) {
    return;
  }
  Wait wait(call, rank_, limits);
  for (;;) {
    sleep_on(next, wait.slice());
    const std::vector<int> late = missing();
    if (late.empty()) {
      return;
    }
    if (late.front() == next) {
      // There was no progress since the last check, so check whether the ranks
      // are alive.
      const std::vector<int> dead = exited(late);
      if (!dead.empty()) {
        wait.throw_exited(dead);
      }
      wait.still_missing(late);
    }
    next = late.front();
  }
}

bool ShmBarrier::all_arrived() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (!has_arrived(rank)) {
      return false;
    }
  }
  return true;
}

std::vector<int> ShmBarrier::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!has_arrived(rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

std::vector<int> ShmBarrier::exited(const std::vector<int>& ranks) const {
  std::vector<int> result;
  for (const int rank : ranks) {
    // The rank may have arrived and then exited normally, so check
    // `has_arrived` after the lock.
    if (!memory_->is_present(rank) && !has_arrived(rank)) {
      result.push_back(rank);
    }
  }
  return result;
}

void ShmBarrier::sleep_on(int rank, std::chrono::milliseconds timeout) {
  Slot& slot = slots_[rank];
  slot.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const auto seen = slot.arrived.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - round_) < 0) {
    const auto milliseconds = timeout.count();
    const timespec time{
        milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1000000};
    ::syscall(SYS_futex, &slot.arrived, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  slot.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace accelerate
