// SPDX-License-Identifier: Apache-2.0
#include "comm/patience.h"

#include <algorithm>
#include <iostream>

#include "accelerate/error.h"
#include "accelerate/interrupt.h"
#include "base/str_cat.h"
#include "comm/launcher_link.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A dead peer must be noticed within a second; ten looks a second cost nothing.
constexpr milliseconds kSlice(100);
// A wait this long is worth a word to the launcher, which shows it when asked.
constexpr milliseconds kWorthTelling(1000);

thread_local const Call* current_call = nullptr;

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

milliseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

}  // namespace

InterruptedError::~InterruptedError() = default;

void interrupt_waits() noexcept {
  interrupted = true;
}

void resume_waits() noexcept {
  interrupted = false;
}

bool waits_are_interrupted() noexcept {
  return interrupted;
}

CallScope::CallScope(const Call& call) : outer_(current_call) {
  current_call = &call;
}

CallScope::~CallScope() {
  current_call = outer_;
}

const Call* CallScope::current() {
  return current_call;
}

Wait::Wait(const Call& call, int rank, const Patience& patience)
    : call_(call),
      rank_(rank),
      patience_(patience),
      start_(steady_clock::now()) {
}

Wait::~Wait() {
  if (told_) {
    tell_launcher("");
  }
}

milliseconds Wait::slice() const {
  const auto next =
      warned_ ? timeout() : std::min(patience_.warn_after, timeout());
  return std::clamp(next - since(start_), milliseconds(1), kSlice);
}

milliseconds Wait::timeout() const {
  return call_.timeout.value_or(patience_.timeout);
}

std::string Wait::title() const {
  return str_cat(call_.operation, " #", call_.sequence, ": ");
}

void Wait::still_missing(const std::vector<int>& ranks) {
  const std::string who = name_ranks(ranks);
  go_on(
      {who,
       "",
       str_cat(who, " did not come within ", name_duration(timeout())),
       str_cat(
           "see what ",
           who,
           " did instead: every rank must make the same collective calls, "
           "also inside `if (is_main_process())`")});
}

void Wait::no_word_from(const std::vector<int>& ranks) {
  const std::string who = name_ranks(ranks);
  go_on(
      {who,
       ", and the store does not answer",
       str_cat(
           "no word from ",
           who,
           " within ",
           name_duration(timeout()),
           ", and the store does not answer"),
       "see whether the process that hosts the store still runs: the "
       "launcher's, or that of rank 0"});
}

void Wait::go_on(const Absence& absence) {
  if (patience_.aborted != nullptr && patience_.aborted->load()) {
    throw DistributedError(
        str_cat(
            title(),
            "aborted on rank ",
            rank_,
            " while waiting for ",
            absence.who),
        "nothing to do: the group was shut down on purpose");
  }
  if (interrupted) {
    throw InterruptedError(
        str_cat(
            title(),
            "interrupted on rank ",
            rank_,
            " while waiting for ",
            absence.who),
        "start the run again: its processes cannot agree any more");
  }
  const auto waited = since(start_);
  if (waited >= timeout()) {
    throw DistributedError(
        str_cat(title(), absence.failure, "; rank ", rank_, " stopped waiting"),
        absence.hint);
  }
  if (!told_ && waited >= kWorthTelling) {
    told_ = true;
    tell_launcher(str_cat(
        call_.operation, " #", call_.sequence, ", waits for ", absence.who));
  }
  if (warned_ || waited < patience_.warn_after) {
    return;
  }
  warned_ = true;
  const std::string text = str_cat(
      title(),
      "rank ",
      rank_,
      " has waited ",
      name_duration(patience_.warn_after),
      " for ",
      absence.who,
      absence.note,
      "; it gives up after ",
      name_duration(timeout()));
  if (patience_.warn) {
    patience_.warn(text);
  } else {
    std::cerr << str_cat("warning: ", text, "\n") << std::flush;
  }
}

void Wait::gone(const std::vector<int>& ranks) const {
  throw DistributedError(
      str_cat(
          title(),
          "rank ",
          rank_,
          " lost ",
          name_ranks(ranks),
          ": the process ended or destroyed its group"),
      str_cat("look for the own error of ", name_ranks(ranks), " first"));
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += str_cat(i == 0 ? "" : ", ", ranks[i]);
  }
  return text;
}

std::string name_duration(milliseconds duration) {
  return duration.count() % 1000 == 0 ? str_cat(duration.count() / 1000, " s")
                                      : str_cat(duration.count(), " ms");
}

}  // namespace accelerate
