// SPDX-License-Identifier: Apache-2.0
#include "comm/wait_limits.h"

#include <algorithm>

#include "accelerate/error.h"
#include "accelerate/interrupt.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "comm/launcher_link.h"
#include "comm/wait_beats.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A dead rank must be detected within a second, and ten checks per second have
// no measurable cost.
constexpr milliseconds kSlice(100);
// On Ctrl-\, the launcher shows waits that are longer than this time.
constexpr milliseconds kReportAfter(1000);

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

Wait::Wait(const Call& call, int rank, const WaitLimits& limits)
    : call_(call), rank_(rank), limits_(limits), start_(steady_clock::now()) {
}

Wait::~Wait() {
  if (reported_) {
    report_status_to_launcher("");
  }
}

milliseconds Wait::slice() const {
  const auto next =
      warned_ ? timeout() : std::min(limits_.warn_after, timeout());
  return std::clamp(next - since(start_), milliseconds(1), kSlice);
}

milliseconds Wait::timeout() const {
  return call_.timeout.value_or(limits_.timeout);
}

std::string Wait::prefix() const {
  return str_cat(call_.operation, " #", call_.sequence, ": ");
}

void Wait::still_missing(const std::vector<int>& ranks) {
  if (limits_.beats) {
    limits_.beats->beat();
  }
  const std::string names =
      name_ranks(limits_.beats ? limits_.beats->silent(ranks) : ranks);
  check(
      {names,
       "",
       str_cat(
           names, " did not reach this call within ", name_duration(timeout())),
       str_cat(
           "check what ",
           names,
           " did instead: every rank must make the same collective calls, so "
           "do not call a collective inside `if (is_main_process())`")});
}

void Wait::store_unresponsive(const std::vector<int>& ranks) {
  const std::string names = name_ranks(ranks);
  check(
      {names,
       ", and the store is not responding",
       str_cat(
           names,
           " did not respond within ",
           name_duration(timeout()),
           ", and the store is not responding"),
       "check that the process with the store (the launcher or rank 0) is "
       "still running"});
}

void Wait::check(const Report& report) {
  if (limits_.aborted != nullptr && limits_.aborted->load()) {
    throw DistributedError(
        str_cat(
            prefix(),
            "aborted on rank ",
            rank_,
            " while waiting for ",
            report.ranks),
        "no action needed: the process group was shut down on purpose");
  }
  if (interrupted) {
    throw InterruptedError(
        str_cat(
            prefix(),
            "interrupted on rank ",
            rank_,
            " while waiting for ",
            report.ranks),
        "restart the run: its ranks are out of sync");
  }
  const auto waited = since(start_);
  if (waited >= timeout()) {
    throw DistributedError(
        str_cat(prefix(), report.failure, "; rank ", rank_, " stopped waiting"),
        report.hint);
  }
  if (!reported_ && waited >= kReportAfter) {
    reported_ = true;
    report_status_to_launcher(str_cat(
        call_.operation, " #", call_.sequence, ", waiting for ", report.ranks));
  }
  if (warned_ || waited < limits_.warn_after) {
    return;
  }
  warned_ = true;
  const std::string text = str_cat(
      prefix(),
      "rank ",
      rank_,
      " has waited ",
      name_duration(limits_.warn_after),
      " for ",
      report.ranks,
      report.note,
      "; the timeout is ",
      name_duration(timeout()));
  if (limits_.warn) {
    limits_.warn(text);
  } else {
    print_warning(text);
  }
}

void Wait::throw_exited(const std::vector<int>& ranks) const {
  throw DistributedError(
      str_cat(
          prefix(),
          "rank ",
          rank_,
          " lost the connection to ",
          name_ranks(ranks),
          ranks.size() == 1
              ? ": the process exited or destroyed its process group"
              : ": the processes exited or destroyed their process groups"),
      str_cat(
          "the root cause is in the ",
          ranks.size() == 1 ? "log of " : "logs of ",
          name_ranks(ranks)));
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
