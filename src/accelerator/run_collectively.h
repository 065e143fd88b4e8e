// SPDX-License-Identifier: Apache-2.0
// Runs work that may throw on some ranks but not on others.
#pragma once

#include <functional>
#include <string>

#include "accelerate/group.h"

namespace accelerate {

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

/// Like `run_collectively`, but returns the error messages from all ranks
/// instead of throwing, so that the caller can undo the work. Empty if no rank
/// failed. Lists each message once, after the ranks that failed with it; omits
/// the ranks if all ranks failed with the same message.
std::string collect_problems(
    const Group& group, const std::function<void()>& work);

}  // namespace accelerate
