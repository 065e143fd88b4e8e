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

namespace accelerate {
namespace {

using std::chrono::milliseconds;

// Messages up to here need one collective, longer ones two.
constexpr std::size_t kShort = 1024;

// Time for the kernel to release the lock of a process whose sockets are
// already closed, and to deliver what a process sent before it ended.
constexpr milliseconds kAfterlife(500);
constexpr milliseconds kNextLook(5);

// A store that runs answers in a fraction of this.
constexpr milliseconds kStoreLimit(100);

std::string late_key(int rank) {
  return str_cat("late/", rank);
}

std::string late_value(const Call& call) {
  return str_cat(call.operation, "#", call.sequence);
}

// Says that this rank is late in a call, and returns those that do not say so.
std::vector<int> not_at(const std::string& call, const Seat& seat) {
  seat.store->set(late_key(seat.rank), call);
  std::vector<int> ranks;
  for (int rank = 0; rank < seat.size; ++rank) {
    const std::string key = late_key(rank);
    const bool here =
        rank == seat.rank ||
        (seat.store->check({key}) && seat.store->get_to_str(key) == call);
    if (!here) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Says that this rank lost a connection, and returns those that do not say so
// within `kAfterlife`.
std::vector<int> without_sign_of_life(const Seat& seat) {
  const auto key = [](int rank) { return str_cat("lost/", rank); };
  const auto until = std::chrono::steady_clock::now() + kAfterlife;
  seat.store->set(key(seat.rank), "a connection");
  std::vector<int> ranks = all_but(seat.rank, seat.size);
  while (!ranks.empty() && std::chrono::steady_clock::now() < until) {
    std::erase_if(
        ranks, [&](int rank) { return seat.store->check({key(rank)}); });
    std::this_thread::sleep_for(kNextLook);
  }
  return ranks;
}

// Tells when a work has ended, well or not.
class Ending {
 public:
  // With `by_future` the work itself is never asked to wait.
  Ending(c10d::Work& work, bool by_future) : work_(work) {
    if (by_future) {
      future_ = std::make_shared<std::promise<void>>();
      ended_ = future_->get_future();
      work.getFuture()->addCallback(
          [promise = future_](c10::ivalue::Future&) { promise->set_value(); });
    }
  }

  bool within(milliseconds at_most) const {
    if (work_.isCompleted()) {
      return true;
    }
    if (future_) {
      ended_.wait_for(at_most);
      return work_.isCompleted();
    }
    try {
      work_.wait(at_most);
    } catch (const std::exception&) {
      // Too early, or the work's own error: the caller asks again.
    }
    return work_.isCompleted();
  }

 private:
  c10d::Work& work_;
  std::shared_ptr<std::promise<void>> future_;
  std::future<void> ended_;
};

}  // namespace

BackendWait::BackendWait(
    Seat seat,
    std::shared_ptr<SharedMemory> memory,
    c10::intrusive_ptr<c10d::Backend> plugin)
    : seat_(std::move(seat)),
      memory_(std::move(memory)),
      plugin_(std::move(plugin)) {
}

void BackendWait::operator()(
    const c10::intrusive_ptr<c10d::Work>& work,
    const Call& call,
    const Patience& patience) const {
  try {
    watch(work, call, patience);
    work->wait();
  } catch (const Error&) {
    if (plugin_) {
      plugin_->abort();
    }
    throw;
  } catch (const std::exception& error) {
    rethrow(call, patience, error.what());
  }
}

void BackendWait::watch(
    const c10::intrusive_ptr<c10d::Work>& work,
    const Call& call,
    const Patience& patience) const {
  const Ending end(*work, needs_async());
  Wait wait(call, seat_.rank, patience);
  BoundedCall store;
  while (!end.within(wait.slice())) {
    const std::vector<int> dead = gone();
    // A rank that was done with the operation may have left in peace, with its
    // last bytes still on their way to this one.
    if (!dead.empty() && !end.within(kAfterlife)) {
      wait.gone(dead);
    }
    ask_who_is_late(store, call, wait);
  }
}

std::vector<int> BackendWait::gone() const {
  std::vector<int> ranks;
  for (int rank = 0; memory_ && rank < seat_.size; ++rank) {
    if (rank != seat_.rank && !memory_->is_present(rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

void BackendWait::ask_who_is_late(
    BoundedCall& store, const Call& call, Wait& wait) const {
  const auto missing = std::make_shared<std::vector<int>>();
  const bool answered = store.returned_within(
      kStoreLimit, [seat = seat_, value = late_value(call), missing] {
        *missing = not_at(value, seat);
      });
  const auto others = all_but(seat_.rank, seat_.size);
  if (!answered) {
    wait.no_word_from(others);
  } else {
    // One that was stopped after it said that it is late looks present.
    wait.still_missing(missing->empty() ? others : *missing);
  }
}

void BackendWait::rethrow(
    const Call& call, const Patience& patience, const std::string& why) const {
  const auto until = std::chrono::steady_clock::now() + kAfterlife;
  while (memory_ && std::chrono::steady_clock::now() < until) {
    const std::vector<int> dead = gone();
    if (!dead.empty()) {
      Wait(call, seat_.rank, patience).gone(dead);
    }
    std::this_thread::sleep_for(kNextLook);
  }
  const std::vector<int> silent = silent_ranks();
  const std::string who = silent.empty() ? "" : name_ranks(silent);
  throw DistributedError(
      str_cat(
          call.operation,
          " #",
          call.sequence,
          ": rank ",
          seat_.rank,
          " lost the connection to a peer",
          silent.empty() ? "" : str_cat(", no sign of life from ", who),
          ": ",
          why),
      str_cat(
          "look for the own error of ",
          silent.empty() ? "the other ranks" : who,
          " first"));
}

std::vector<int> BackendWait::silent_ranks() const {
  if (memory_) {
    return {};  // It would have told who is gone.
  }
  const auto silent = std::make_shared<std::vector<int>>();
  BoundedCall store;
  try {
    const bool answered = store.returned_within(
        kAfterlife + kStoreLimit,
        [seat = seat_, silent] { *silent = without_sign_of_life(seat); });
    return answered ? *silent : std::vector<int>{};
  } catch (const std::exception&) {
    return {};  // The store went down with the rank that hosts it.
  }
}

BackendExchange::BackendExchange(
    c10::intrusive_ptr<c10d::Backend> backend, BackendWait wait)
    : backend_(std::move(backend)), wait_(std::move(wait)) {
}

// Each message travels with its length in front. If one does not fit into the
// short form, every rank sees that and all go once more with enough room.
std::vector<std::string> BackendExchange::all(
    const std::string& mine, const Call& call, const Patience& patience) {
  auto messages = fixed(mine, kShort, call, patience);
  std::size_t longest = 0;
  for (const std::string& message : messages) {
    longest = std::max(longest, message.size());
  }
  return longest <= kShort ? messages : fixed(mine, longest, call, patience);
}

std::vector<std::string> BackendExchange::fixed(
    const std::string& mine,
    std::size_t bytes,
    const Call& call,
    const Patience& patience) {
  const std::uint64_t length = mine.size();
  const auto width = static_cast<std::int64_t>(sizeof length + bytes);
  auto in = at::zeros({width}, at::kByte);
  auto out = at::zeros({width * backend_->getSize()}, at::kByte);
  auto* data = static_cast<std::uint8_t*>(in.mutable_data_ptr());
  std::memcpy(data, &length, sizeof length);
  std::memcpy(data + sizeof length, mine.data(), std::min(bytes, mine.size()));
  c10d::AllgatherOptions options;
  options.asyncOp = wait_.needs_async();
  wait_(backend_->_allgather_base(out, in, options), call, patience);

  std::vector<std::string> messages;
  for (int rank = 0; rank < backend_->getSize(); ++rank) {
    const auto* from =
        static_cast<const std::uint8_t*>(out.const_data_ptr()) + width * rank;
    std::uint64_t total = 0;
    std::memcpy(&total, from, sizeof total);
    std::string message(total, '\0');
    std::memcpy(
        message.data(),
        from + sizeof total,
        std::min<std::size_t>(bytes, total));
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace accelerate
