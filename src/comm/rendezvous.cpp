// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous.h"

#include <algorithm>
#include <thread>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/bounded_call.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

std::string key_of(const std::string& topic, int rank) {
  return str_cat(topic, "/", rank);
}

// What a store says about a topic: all values, or who has not come.
struct Attendance {
  std::vector<std::string> values;
  std::vector<int> absent;
};

// Whether all keys are there within `at_most`. Asks again and again, for
// `Store::wait` of LibTorch prints two lines whenever it ends early.
bool appear(
    c10d::Store& store,
    const std::vector<std::string>& keys,
    milliseconds at_most) {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  constexpr microseconds kFirst(100);
  constexpr microseconds kLongest(10'000);
  const auto until = steady_clock::now() + at_most;
  for (microseconds pause = kFirst; !store.check(keys);
       pause = std::min(2 * pause, kLongest)) {
    if (steady_clock::now() >= until) {
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
  return true;
}

Attendance attend(
    const Seat& seat,
    const std::string& topic,
    const std::string& value,
    milliseconds at_most) {
  // An empty value would look like a missing one in some stores.
  seat.store->set(key_of(topic, seat.rank), str_cat("=", value));
  std::vector<std::string> keys;
  for (int rank = 0; rank < seat.size; ++rank) {
    keys.push_back(key_of(topic, rank));
  }
  Attendance result;
  if (appear(*seat.store, keys, at_most)) {
    for (const std::string& key : keys) {
      result.values.push_back(seat.store->get_to_str(key).substr(1));
    }
    return result;
  }
  for (int rank = 0; rank < seat.size; ++rank) {
    if (!seat.store->check({key_of(topic, rank)})) {
      result.absent.push_back(rank);
    }
  }
  return result;
}

// The store may be in a process that was stopped.
constexpr milliseconds kStoreLimit(500);

}  // namespace

std::vector<std::string> meet(
    const Seat& seat,
    const std::string& topic,
    const std::string& value,
    const Patience& patience) {
  const Call call{str_cat("joining the group (", topic, ")"), 0};
  Wait wait(call, seat.rank, patience);
  BoundedCall store;
  std::vector<int> absent = all_but(seat.rank, seat.size);
  for (;;) {
    const milliseconds at_most = 10 * wait.slice();
    const auto found = std::make_shared<Attendance>();
    const bool answered = store.returned_within(
        at_most + kStoreLimit,
        [=, copy = seat] { *found = attend(copy, topic, value, at_most); });
    if (!answered) {
      wait.no_word_from(absent);
    } else if (!found->values.empty()) {
      return found->values;
    } else if (!found->absent.empty()) {
      absent = found->absent;
      wait.still_missing(absent);
    }
  }
}

std::vector<int> all_but(int rank, int size) {
  std::vector<int> ranks;
  for (int other = 0; other < size; ++other) {
    if (other != rank) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

CommonMemory share_memory(
    const Seat& seat, std::size_t bytes, const Patience& patience) {
  CommonMemory common;
  std::string address;
  std::string problem;
  try {
    if (seat.rank == 0) {
      common.memory = SharedMemory::create(bytes);
      address = common.memory->address();
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  address = meet(seat, "memory", address, patience).front();
  try {
    if (seat.rank != 0 && !address.empty()) {
      common.memory = SharedMemory::open(address);
    }
    if (common.memory) {
      common.memory->hold_presence(seat.rank);
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  common.problems = meet(seat, "opened", problem, patience);
  const bool everywhere = std::all_of(
      common.problems.begin(),
      common.problems.end(),
      [](const std::string& text) { return text.empty(); });
  if (!everywhere) {
    common.memory.reset();
  }
  return common;
}

}  // namespace accelerate
