// SPDX-License-Identifier: Apache-2.0
// How long ranks wait for each other, and how they say so.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace accelerate {

/// What a rank is doing while it waits, for messages.
struct Call {
  std::string operation;
  std::uint64_t sequence = 0;
  /// How long this call waits, where that is not the group's `Patience`.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
};

/// While it lives, the operations that this thread starts on our backends
/// speak of `call` in their messages: of what the user called, not of the
/// all-reduce that is one part of it. The call must outlive it.
class CallScope {
 public:
  explicit CallScope(const Call& call);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope();

  /// The innermost one of this thread, or null.
  static const Call* current();

 private:
  const Call* outer_;
};

/// How long a rank waits for the others of its group.
struct Patience {
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Takes the warning about late ranks; writes to stderr when empty.
  std::function<void(const std::string&)> warn = {};
  /// Ends every wait with `DistributedError` once it is true; may be null.
  const std::atomic<bool>* aborted = nullptr;
};

/// One wait of one rank: decides when to warn and when to give up.
///
/// The caller loops: sleep at most `slice()`, look whether the others came,
/// then report those that did not with `still_missing` or `gone`.
class Wait {
 public:
  Wait(const Call& call, int rank, const Patience& patience);
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  ~Wait();

  /// How long to sleep before the next look.
  std::chrono::milliseconds slice() const;

  /// Warns once when the time for it has come. Throws `DistributedError` that
  /// names the missing ranks when the timeout has passed or the wait was
  /// aborted.
  void still_missing(const std::vector<int>& ranks);

  /// The same when nobody can be asked who is there: `ranks` are those that
  /// are not known to be.
  void no_word_from(const std::vector<int>& ranks);

  /// Throws `DistributedError`: these ranks will never come.
  [[noreturn]] void gone(const std::vector<int>& ranks) const;

 private:
  /// What is said about those that are waited for.
  struct Absence {
    std::string who;
    std::string note;  // After "has waited 1 s for <who>".
    std::string failure;
    std::string hint;
  };

  void go_on(const Absence& absence);
  std::string title() const;
  std::chrono::milliseconds timeout() const;

  const Call& call_;
  const int rank_;
  const Patience& patience_;
  const std::chrono::steady_clock::time_point start_;
  bool warned_ = false;
  bool told_ = false;  // The launcher knows that this rank waits.
};

/// "rank 3" or "ranks 1, 3".
std::string name_ranks(const std::vector<int>& ranks);

/// "600 s" or "250 ms".
std::string name_duration(std::chrono::milliseconds duration);

}  // namespace accelerate
