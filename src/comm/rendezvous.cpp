// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous.h"

#include <algorithm>
#include <thread>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/bounded_call.h"
#include "comm/reporting_store.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

std::string key_of(const std::string& topic, int rank) {
  return str_cat(topic, "/", rank);
}

// The values of all ranks, or the ranks whose values are missing.
struct StoreValues {
  std::vector<std::string> values;
  std::vector<int> missing;
};

// Returns whether all keys exist within `timeout`. Polls, because LibTorch's
// `Store::wait` prints two lines on every timeout.
bool wait_for_keys(
    c10d::Store& store,
    const std::vector<std::string>& keys,
    milliseconds timeout) {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  constexpr microseconds kFirst(100);
  constexpr microseconds kLongest(10'000);
  const auto deadline = steady_clock::now() + timeout;
  for (microseconds pause = kFirst; !store.check(keys);
       pause = std::min(2 * pause, kLongest)) {
    if (steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(pause);
  }
  return true;
}

StoreValues publish_and_collect(
    const RankContext& context,
    const std::string& topic,
    const std::string& value,
    milliseconds timeout) {
  // Some stores cannot distinguish an empty value from a missing value.
  context.store->set(key_of(topic, context.rank), str_cat("=", value));
  std::vector<std::string> keys;
  for (int rank = 0; rank < context.size; ++rank) {
    keys.push_back(key_of(topic, rank));
  }
  StoreValues result;
  if (wait_for_keys(*context.store, keys, timeout)) {
    for (const std::string& key : keys) {
      result.values.push_back(context.store->get_to_str(key).substr(1));
    }
    return result;
  }
  for (int rank = 0; rank < context.size; ++rank) {
    if (!context.store->check({key_of(topic, rank)})) {
      result.missing.push_back(rank);
    }
  }
  return result;
}

// A limit is needed because the process with the store may be stopped.
constexpr milliseconds kStoreLimit(500);

}  // namespace

std::vector<std::string> gather_through_store(
    const RankContext& context,
    const std::string& topic,
    const std::string& value,
    const WaitLimits& limits) {
  const Call call{str_cat("joining the group (", topic, ")"), 0};
  Wait wait(call, context.rank, limits);
  BoundedCall store;
  std::vector<int> missing = other_ranks(context.rank, context.size);
  for (;;) {
    const milliseconds timeout = 10 * wait.slice();
    const auto found = std::make_shared<StoreValues>();
    bool answered = false;
    try {
      answered =
          store.returned_within(timeout + kStoreLimit, [=, copy = context] {
            *found = publish_and_collect(copy, topic, value, timeout);
          });
    } catch (const StoreError& error) {
      throw DistributedError(
          str_cat(call.operation, ": rank ", context.rank, " ", error.what()),
          error.hint());
    }
    if (!answered) {
      wait.store_unresponsive(missing);
    } else if (!found->values.empty()) {
      return found->values;
    } else if (!found->missing.empty()) {
      missing = found->missing;
      wait.still_missing(missing);
    }
  }
}

std::vector<int> other_ranks(int rank, int size) {
  std::vector<int> ranks;
  for (int other = 0; other < size; ++other) {
    if (other != rank) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

GatherTexts through_store(
    const RankContext& context,
    const std::string& topic,
    const WaitLimits& limits) {
  return [&context, topic, &limits](const std::string& text) {
    return gather_through_store(context, topic, text, limits);
  };
}

CommonMemory share_memory(
    const RankContext& context, std::size_t bytes, const WaitLimits& limits) {
  CommonMemory common;
  const RankOutcomes created = try_collectively(
      through_store(context, "shared memory", limits), [&]() -> Json {
        if (context.rank != 0) {
          return {};
        }
        common.memory = SharedMemory::create(bytes);
        return common.memory->address();
      });
  if (!created.all_succeeded()) {
    return {nullptr, created.table()};
  }
  const RankOutcomes opened = try_collectively(
      through_store(context, "opening shared memory", limits), [&] {
        if (context.rank != 0) {
          common.memory =
              SharedMemory::open(created.ranks.front().value.as_string());
        }
        common.memory->hold_presence(context.rank);
        return Json();
      });
  if (!opened.all_succeeded()) {
    return {nullptr, opened.table()};
  }
  return common;
}

}  // namespace accelerate
