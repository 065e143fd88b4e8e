// SPDX-License-Identifier: Apache-2.0
#include "comm/rounds.h"

#include <ctime>
#include <thread>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "comm/shm_exchange.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

Patience short_patience() {
  return {.warn_after = milliseconds(10'000), .timeout = milliseconds(20'000)};
}

// The memory of one rank, opened like a process would.
std::shared_ptr<SharedMemory> seat(const SharedMemory& first, int rank) {
  auto memory = SharedMemory::open(first.address());
  memory->hold_presence(rank);
  return memory;
}

TEST(Rounds, NobodyIsAheadByTwo) {
  constexpr int kRanks = 3;
  constexpr int kRounds = 3000;
  const auto first = SharedMemory::create(Rounds::bytes(kRanks) + 4096);
  std::atomic<int> faults = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto memory = seat(*first, rank);
        Rounds rounds(memory, memory->data(), rank, kRanks);
        auto* slots = reinterpret_cast<std::atomic<int>*>(
            memory->data() + Rounds::bytes(kRanks));
        for (int round = 0; round < kRounds; ++round) {
          const int parity = rounds.parity();
          slots[2 * rank + parity] = round;
          rounds.arrive();
          rounds.wait({"test", 1}, short_patience());
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

// One that spins would use the whole second.
TEST(Rounds, WaitWithoutABusyCore) {
  const auto first = SharedMemory::create(Rounds::bytes(2));
  const auto mine = seat(*first, 0);
  const auto theirs = seat(*first, 1);
  Rounds rounds(mine, mine->data(), 0, 2);
  rounds.arrive();
  Patience patience = short_patience();
  patience.timeout = milliseconds(1000);
  const auto before = cpu_time_of_this_thread();

  EXPECT_THROW(rounds.wait({"gather", 7}, patience), DistributedError);

  EXPECT_LT(cpu_time_of_this_thread() - before, milliseconds(20));
}

TEST(Rounds, SayWhoIsGone) {
  const auto first = SharedMemory::create(Rounds::bytes(3));
  const auto mine = seat(*first, 0);
  auto theirs = seat(*first, 1);
  Rounds rounds(mine, mine->data(), 0, 3);
  theirs.reset();
  rounds.arrive();

  EXPECT_EQ(
      message_of<DistributedError>(
          [&] { rounds.wait({"gather", 7}, short_patience()); }),
      "gather #7: rank 0 lost ranks 1, 2: the process ended or destroyed its "
      "group");
}

TEST(Rounds, SayWhoIsLate) {
  const auto first = SharedMemory::create(Rounds::bytes(2));
  const auto mine = seat(*first, 0);
  const auto theirs = seat(*first, 1);
  Rounds rounds(mine, mine->data(), 0, 2);
  rounds.arrive();
  Patience patience = short_patience();
  patience.timeout = milliseconds(50);

  EXPECT_EQ(
      message_of<DistributedError>(
          [&] { rounds.wait({"gather", 7}, patience); }),
      "gather #7: rank 1 did not come within 50 ms; rank 0 stopped waiting");
}

TEST(Rounds, CountAPeerThatArrivedAndThenEnded) {
  const auto first = SharedMemory::create(Rounds::bytes(2));
  const auto mine = seat(*first, 0);
  {
    const auto theirs = seat(*first, 1);
    Rounds(theirs, theirs->data(), 1, 2).arrive();
  }
  Rounds rounds(mine, mine->data(), 0, 2);
  rounds.arrive();

  EXPECT_NO_THROW(rounds.wait({"gather", 7}, short_patience()));
}

// Lengths around the 8184 bytes of one buffer, and different on each rank.
TEST(ShmExchange, HandsOutMessagesOfAnyLength) {
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
        const auto memory = seat(*first, rank);
        ShmExchange exchange(memory, memory->data(), rank, kRanks);
        for (std::size_t i = 0; i < 2 * lengths.size(); ++i) {
          const auto all =
              exchange.all(message(rank, i), {"test", 1}, short_patience());
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
