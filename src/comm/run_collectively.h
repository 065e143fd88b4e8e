// SPDX-License-Identifier: Apache-2.0
// Runs work that may throw on some ranks but not on others.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/group.h"
#include "accelerate/json.h"

namespace accelerate {

/// The result of the work on one rank.
struct RankOutcome {
  Json value;         ///< what the work returned; null after an error
  std::string error;  ///< empty if the work succeeded
  std::string hint;
};

/// The results of the work on all ranks. All ranks get the same values, except
/// `own_error`.
struct RankOutcomes {
  std::vector<RankOutcome> ranks;
  std::exception_ptr own_error;  ///< what the work threw on this rank

  bool all_succeeded() const;
  /// Returns a line "\n  rank 1: …" for each rank that failed.
  std::string table() const;
  /// Lists each distinct error once, preceded by the ranks that failed with it.
  /// If all ranks failed with the same error, returns only that error. Empty if
  /// no rank failed.
  std::string merged_table() const;
  /// Returns the first hint of a rank that failed; may be empty.
  std::string first_hint() const;
};

/// Sends this rank's text to all ranks and returns the texts of all ranks.
using GatherTexts =
    std::function<std::vector<std::string>(const std::string& text)>;

/// Runs `work` on every rank and returns the results of all ranks. If `work`
/// throws on a rank, the other ranks do not wait for that rank. Collective,
/// with one exchange.
///
/// If the exchange itself fails and `work` threw on this rank, throws the
/// exception from `work`, which is more useful than the failure of the
/// exchange.
RankOutcomes try_collectively(
    const GatherTexts& gather, const std::function<Json()>& work);
RankOutcomes try_collectively(
    const Group& group, const std::function<Json()>& work);

/// Runs `work`, such as a user's function. If `work` throws on some ranks,
/// these ranks rethrow their own exceptions. The other ranks throw a
/// `RankError` with `context`, the failed ranks and their messages, instead of
/// waiting for the failed ranks in a later collective.
///
/// Collective. The process group stays usable.
void run_collectively(
    const Group& group,
    const std::string& context,
    const std::function<void()>& work);

}  // namespace accelerate
