// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous.h"

#include <algorithm>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

std::string key_of(const std::string& topic, int rank) {
  return str_cat(topic, "/", rank);
}

// Whether all keys are there within `at_most`; a store that fails in another
// way throws.
bool appear(
    c10d::Store& store,
    const std::vector<std::string>& keys,
    std::chrono::milliseconds at_most) {
  try {
    store.wait(keys, at_most);
    return true;
  } catch (const c10::DistStoreError&) {
    return store.check(keys);
  }
}

std::vector<int> absent(const Seat& seat, const std::string& topic) {
  std::vector<int> ranks;
  for (int rank = 0; rank < seat.size; ++rank) {
    if (!seat.store->check({key_of(topic, rank)})) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace

std::vector<std::string> meet(
    const Seat& seat,
    const std::string& topic,
    const std::string& value,
    const Patience& patience) {
  // An empty value would look like a missing one in some stores.
  seat.store->set(key_of(topic, seat.rank), str_cat("=", value));
  std::vector<std::string> keys;
  for (int rank = 0; rank < seat.size; ++rank) {
    keys.push_back(key_of(topic, rank));
  }
  const Call call{str_cat("joining the group (", topic, ")"), 0};
  Wait wait(call, seat.rank, patience);
  while (!appear(*seat.store, keys, 10 * wait.slice())) {
    const std::vector<int> late = absent(seat, topic);
    if (!late.empty()) {
      wait.still_missing(late);
    }
  }
  std::vector<std::string> values;
  for (const std::string& key : keys) {
    values.push_back(seat.store->get_to_str(key).substr(1));
  }
  return values;
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
