// SPDX-License-Identifier: Apache-2.0
#include "comm/shm_barrier.h"

#include <ctime>
#include <thread>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "comm/shm_exchange.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

WaitLimits test_limits() {
  return {.warn_after = milliseconds(10'000), .timeout = milliseconds(20'000)};
}

// The memory of one rank, opened as in another process.
std::shared_ptr<SharedMemory> memory_of(const SharedMemory& first, int rank) {
  auto memory = SharedMemory::open(first.address());
  memory->hold_presence(rank);
  return memory;
}

TEST(ShmBarrier, NoRankGetsTwoRoundsAhead) {
  constexpr int kRanks = 3;
  constexpr int kRounds = 3000;
  const auto first = SharedMemory::create(ShmBarrier::bytes(kRanks) + 4096);
  std::atomic<int> faults = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto memory = memory_of(*first, rank);
        ShmBarrier barrier(memory, memory->data(), rank, kRanks);
        auto* slots = reinterpret_cast<std::atomic<int>*>(
            memory->data() + ShmBarrier::bytes(kRanks));
        for (int round = 0; round < kRounds; ++round) {
          const int parity = barrier.parity();
          slots[2 * rank + parity] = round;
          barrier.arrive();
          barrier.wait({"test", 1}, test_limits());
          for (int other = 0; other < kRanks; ++other) {
            faults += slots[2 * other + parity] == round ? 0 : 1;
          }
        }
      });
    }
  }

  EXPECT_EQ(faults, 0);
}

std::chrono::nanoseconds cpu_time_of_this_thread() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) +
         std::chrono::nanoseconds(used.tv_nsec);
}

// A spinning wait would use a whole second of CPU time.
TEST(ShmBarrier, WaitsWithoutUsingTheCpu) {
  const auto first = SharedMemory::create(ShmBarrier::bytes(2));
  const auto own_memory = memory_of(*first, 0);
  const auto other_memory = memory_of(*first, 1);
  ShmBarrier barrier(own_memory, own_memory->data(), 0, 2);
  barrier.arrive();
  WaitLimits limits = test_limits();
  limits.timeout = milliseconds(1000);
  const auto before = cpu_time_of_this_thread();

  EXPECT_THROW(barrier.wait({"gather", 7}, limits), DistributedError);

  EXPECT_LT(cpu_time_of_this_thread() - before, milliseconds(20));
}

TEST(ShmBarrier, NamesTheRanksThatExited) {
  const auto first = SharedMemory::create(ShmBarrier::bytes(3));
  const auto own_memory = memory_of(*first, 0);
  auto other_memory = memory_of(*first, 1);
  ShmBarrier barrier(own_memory, own_memory->data(), 0, 3);
  other_memory.reset();
  barrier.arrive();

  EXPECT_EQ(
      message_of<DistributedError>(
          [&] { barrier.wait({"gather", 7}, test_limits()); }),
      "gather #7: rank 0 lost the connection to ranks 1, 2: the processes "
      "exited or destroyed "
      "their process groups");
}

TEST(ShmBarrier, NamesTheLateRanks) {
  const auto first = SharedMemory::create(ShmBarrier::bytes(2));
  const auto own_memory = memory_of(*first, 0);
  const auto other_memory = memory_of(*first, 1);
  ShmBarrier barrier(own_memory, own_memory->data(), 0, 2);
  barrier.arrive();
  WaitLimits limits = test_limits();
  limits.timeout = milliseconds(50);

  EXPECT_EQ(
      message_of<DistributedError>(
          [&] { barrier.wait({"gather", 7}, limits); }),
      "gather #7: rank 1 did not reach this call within 50 ms; rank 0 stopped "
      "waiting");
}

TEST(ShmBarrier, CountsARankThatArrivedAndThenExited) {
  const auto first = SharedMemory::create(ShmBarrier::bytes(2));
  const auto own_memory = memory_of(*first, 0);
  {
    const auto other_memory = memory_of(*first, 1);
    ShmBarrier(other_memory, other_memory->data(), 1, 2).arrive();
  }
  ShmBarrier barrier(own_memory, own_memory->data(), 0, 2);
  barrier.arrive();

  EXPECT_NO_THROW(barrier.wait({"gather", 7}, test_limits()));
}

// Lengths around the 8184 bytes of one buffer, different on each rank.
TEST(ShmExchange, ExchangesMessagesOfAnyLength) {
  constexpr int kRanks = 3;
  const std::vector<std::size_t> lengths = {
      0, 1, 8183, 8184, 8185, 2 * 8184, 2 * 8184 + 1, 300'000};
  const auto message = [&](int rank, std::size_t i) {
    const auto length =
        lengths[(i + static_cast<std::size_t>(rank)) % lengths.size()];
    std::string text(length, static_cast<char>('a' + rank));
    for (std::size_t at = 0; at < length; at += 97) {
      text[at] = static_cast<char>('A' + at % 26);
    }
    return text;
  };
  const auto first = SharedMemory::create(ShmExchange::bytes(kRanks));
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto memory = memory_of(*first, rank);
        ShmExchange exchange(memory, memory->data(), rank, kRanks);
        for (std::size_t i = 0; i < 2 * lengths.size(); ++i) {
          const auto all =
              exchange.all_gather(message(rank, i), {"test", 1}, test_limits());
          for (int other = 0; other < kRanks; ++other) {
            wrong += all[static_cast<std::size_t>(other)] == message(other, i)
                         ? 0
                         : 1;
          }
        }
      });
    }
  }

  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace accelerate
