// SPDX-License-Identifier: Apache-2.0
#include "comm/backend_exchange.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/rendezvous.h"
#include "comm/reporting_store.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

// Messages up to this size need one collective; longer messages need two.
constexpr std::size_t kShort = 1024;

// How long the system may take to release the lock of a process whose sockets
// are already closed, or to deliver data that a process sent before it exited.
constexpr milliseconds kExitGrace(500);
constexpr milliseconds kPollInterval(5);

// A healthy store responds in a fraction of this time.
constexpr milliseconds kStoreLimit(100);

std::string late_key(int rank) {
  return str_cat("late/", rank);
}

std::string late_value(const Call& call) {
  return str_cat(call.operation, "#", call.sequence);
}

// Publishes that this rank is waiting in `call`, and returns the ranks that
// have not published the same call.
std::vector<int> ranks_not_waiting_in(
    const std::string& call, const RankContext& context) {
  context.store->set(late_key(context.rank), call);
  std::vector<int> ranks;
  for (int rank = 0; rank < context.size; ++rank) {
    const std::string key = late_key(rank);
    const bool is_waiting =
        rank == context.rank ||
        (context.store->check({key}) && context.store->get_to_str(key) == call);
    if (!is_waiting) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Publishes that this rank lost a connection, and returns the ranks that have
// not published a lost connection within `kExitGrace`.
std::vector<int> unresponsive_ranks(const RankContext& context) {
  const auto key = [](int rank) { return str_cat("lost/", rank); };
  const auto deadline = std::chrono::steady_clock::now() + kExitGrace;
  context.store->set(key(context.rank), "a connection");
  std::vector<int> ranks = other_ranks(context.rank, context.size);
  while (!ranks.empty() && std::chrono::steady_clock::now() < deadline) {
    std::erase_if(
        ranks, [&](int rank) { return context.store->check({key(rank)}); });
    std::this_thread::sleep_for(kPollInterval);
  }
  return ranks;
}

bool ended_within(milliseconds timeout, c10d::Work& work) {
  if (work.isCompleted()) {
    return true;
  }
  try {
    work.wait(timeout);
  } catch (const std::exception&) {
    // This is a timeout or an error of the work itself; the caller checks
    // again.
  }
  return work.isCompleted();
}

}  // namespace

BackendWait::BackendWait(
    RankContext context, std::shared_ptr<SharedMemory> memory)
    : context_(std::move(context)), memory_(std::move(memory)) {
}

void BackendWait::operator()(
    const c10::intrusive_ptr<c10d::Work>& work,
    const Call& call,
    const WaitLimits& limits) const {
  try {
    wait_until_done(work, call, limits);
    work->wait();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow(call, limits, error.what());
  }
}

void BackendWait::wait_until_done(
    const c10::intrusive_ptr<c10d::Work>& work,
    const Call& call,
    const WaitLimits& limits) const {
  Wait wait(call, context_.rank, limits);
  BoundedCall store;
  while (!ended_within(wait.slice(), *work)) {
    const std::vector<int> dead = exited_ranks();
    // A rank may have finished the operation and exited normally while its last
    // bytes are still in flight.
    if (!dead.empty() && !ended_within(kExitGrace, *work)) {
      wait.throw_exited(dead);
    }
    find_late_ranks(store, call, wait);
  }
}

std::vector<int> BackendWait::exited_ranks() const {
  return memory_ ? memory_->absent_ranks(context_.rank, context_.size)
                 : std::vector<int>();
}

void BackendWait::find_late_ranks(
    BoundedCall& store, const Call& call, Wait& wait) const {
  const auto missing = std::make_shared<std::vector<int>>();
  bool answered = false;
  try {
    answered = store.returned_within(
        kStoreLimit, [context = context_, value = late_value(call), missing] {
          *missing = ranks_not_waiting_in(value, context);
        });
  } catch (const StoreError& error) {
    rethrow(call, wait.limits(), error.what());
  }
  const auto others = other_ranks(context_.rank, context_.size);
  if (!answered) {
    wait.store_unresponsive(others);
  } else {
    // `missing` may be empty, because a rank may have been stopped after it
    // published its call.
    wait.still_missing(missing->empty() ? others : *missing);
  }
}

void BackendWait::rethrow(
    const Call& call,
    const WaitLimits& limits,
    const std::string& reason) const {
  const auto deadline = std::chrono::steady_clock::now() + kExitGrace;
  while (memory_ && std::chrono::steady_clock::now() < deadline) {
    const std::vector<int> dead = exited_ranks();
    if (!dead.empty()) {
      Wait(call, context_.rank, limits).throw_exited(dead);
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  const std::vector<int> silent = find_unresponsive_ranks();
  const std::string names = silent.empty() ? "" : name_ranks(silent);
  throw DistributedError(
      str_cat(
          call.operation,
          " #",
          call.sequence,
          ": rank ",
          context_.rank,
          " lost the connection to another rank",
          silent.empty() ? "" : str_cat(", and ", names, " did not respond"),
          ": ",
          reason),
      silent.empty()
          ? std::string("the root cause is in the logs of the other ranks")
          : str_cat(
                "the root cause is in the ",
                silent.size() == 1 ? "log of " : "logs of ",
                names));
}

std::vector<int> BackendWait::find_unresponsive_ranks() const {
  if (memory_) {
    return {};  // `exited_ranks` has already found these ranks.
  }
  const auto silent = std::make_shared<std::vector<int>>();
  BoundedCall store;
  try {
    const bool answered = store.returned_within(
        kExitGrace + kStoreLimit, [context = context_, silent] {
          *silent = unresponsive_ranks(context);
        });
    return answered ? *silent : std::vector<int>{};
  } catch (const std::exception&) {
    return {};  // The process with the store has died.
  }
}

BackendExchange::BackendExchange(
    c10::intrusive_ptr<c10d::Backend> backend, BackendWait wait)
    : backend_(std::move(backend)), wait_(std::move(wait)) {
}

// Sends each message preceded by its length. If a message does not fit, every
// rank detects this from the length, and all ranks send again with enough
// space.
std::vector<std::string> BackendExchange::all_gather(
    const std::string& message, const Call& call, const WaitLimits& limits) {
  auto messages = all_gather_fixed(message, kShort, call, limits);
  std::size_t longest = 0;
  for (const std::string& received : messages) {
    longest = std::max(longest, received.size());
  }
  return longest <= kShort ? messages
                           : all_gather_fixed(message, longest, call, limits);
}

// Handles exceptions, because, after a rank has died, a backend throws when an
// operation starts.
c10::intrusive_ptr<c10d::Work> BackendExchange::start_all_gather(
    at::Tensor& out,
    at::Tensor& in,
    const Call& call,
    const WaitLimits& limits) {
  c10d::AllgatherOptions options;
  options.asyncOp = false;
  try {
    return backend_->_allgather_base(out, in, options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    wait_.rethrow(call, limits, error.what());
  }
}

std::vector<std::string> BackendExchange::all_gather_fixed(
    const std::string& message,
    std::size_t bytes,
    const Call& call,
    const WaitLimits& limits) {
  const std::uint64_t length = message.size();
  const auto width = static_cast<std::int64_t>(sizeof length + bytes);
  auto in = at::zeros({width}, at::kByte);
  auto out = at::zeros({width * backend_->getSize()}, at::kByte);
  auto* data = static_cast<std::uint8_t*>(in.mutable_data_ptr());
  std::memcpy(data, &length, sizeof length);
  std::memcpy(
      data + sizeof length, message.data(), std::min(bytes, message.size()));
  wait_(start_all_gather(out, in, call, limits), call, limits);

  std::vector<std::string> messages;
  for (int rank = 0; rank < backend_->getSize(); ++rank) {
    const auto* from =
        static_cast<const std::uint8_t*>(out.const_data_ptr()) + width * rank;
    std::uint64_t total = 0;
    std::memcpy(&total, from, sizeof total);
    std::string received(total, '\0');
    std::memcpy(
        received.data(),
        from + sizeof total,
        std::min<std::size_t>(bytes, total));
    messages.push_back(std::move(received));
  }
  return messages;
}

}  // namespace accelerate
