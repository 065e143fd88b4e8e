// SPDX-License-Identifier: Apache-2.0
// Timeouts and warnings while ranks wait for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/export.h"

namespace accelerate {

class WaitBeats;

/// The operation in which a rank waits for other ranks; shown in messages.
struct Call {
  std::string operation;
  std::uint64_t sequence = 0;
  /// The timeout of this call, if it differs from the group's `WaitLimits`.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Owns the memory of the operation, for a transport that cannot cancel a
  /// transfer after a failure.
  std::shared_ptr<const void> memory = nullptr;
};

/// While this object exists, messages about the operations that this thread
/// starts contain the name of `call`: the function that the user called, not
/// the all-reduce inside it. `call` must outlive this object.
class CallScope {
 public:
  explicit CallScope(const Call& call);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope();

  /// Returns the call of the innermost `CallScope` on this thread, or null.
  static const Call* current();

 private:
  const Call* outer_;
};

/// How long a rank waits for the other ranks of its group.
struct WaitLimits {
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Receives the warning about late ranks. If empty, the warning is written to
  /// stderr.
  std::function<void(const std::string&)> warn = {};
  /// Once this flag is true, every `Wait` throws `DistributedError`. May be
  /// null.
  const std::atomic<bool>* aborted = nullptr;
  /// Shows which ranks are waiting. Null if the ranks share no memory.
  std::shared_ptr<WaitBeats> beats = nullptr;
};

/// Decides when to warn and when to time out while a rank waits for other
/// ranks.
///
/// The caller must loop: sleep for at most `slice()`, check which ranks are
/// missing, and pass these ranks to `still_missing`, or to `throw_exited` if
/// they have exited.
class ACCELERATE_API Wait {
 public:
  Wait(const Call& call, int rank, const WaitLimits& limits);
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  ~Wait();

  /// Returns how long to sleep before the next check.
  std::chrono::milliseconds slice() const;

  /// Reports that this rank is waiting. Ranks in `ranks` that are also waiting
  /// do not count as missing. Warns once, after `warn_after`. After the
  /// timeout, or once `aborted` is set, throws a `DistributedError` that names
  /// the missing ranks.
  void still_missing(const std::vector<int>& ranks);

  /// Like `still_missing`, for use while the store does not respond. `ranks`
  /// are the ranks that may be missing.
  void store_unresponsive(const std::vector<int>& ranks);

  const WaitLimits& limits() const { return limits_; }

  /// Throws `DistributedError` because `ranks` have exited and will never reach
  /// the call.
  [[noreturn]] void throw_exited(const std::vector<int>& ranks) const;

 private:
  /// Texts for messages about the missing ranks.
  struct Report {
    std::string ranks;
    std::string note;  // Follows "has waited 30 s for <ranks>".
    std::string failure;
    std::string hint;
  };

  void check(const Report& report);
  std::string prefix() const;
  std::chrono::milliseconds timeout() const;

  const Call& call_;
  const int rank_;
  const WaitLimits& limits_;
  const std::chrono::steady_clock::time_point start_;
  bool warned_ = false;
  bool reported_ = false;  // The launcher was told that this rank is waiting.
};

/// Returns text such as "rank 3" or "ranks 1, 3".
std::string name_ranks(const std::vector<int>& ranks);

/// Returns text such as "600 s" or "250 ms".
std::string name_duration(std::chrono::milliseconds duration);

}  // namespace accelerate
