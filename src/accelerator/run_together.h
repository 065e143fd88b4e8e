// SPDX-License-Identifier: Apache-2.0
// Work that may throw on one rank alone.
#pragma once

#include <functional>
#include <string>

#include "accelerate/group.h"

namespace accelerate {

/// Runs `work`, such as a user's function. When it throws on one rank, all of
/// them throw: that one what it threw, the others a `PeerError` with its rank
/// and its text after `what`. Without this they would wait for it.
///
/// Collective. The group stays usable.
void run_together(
    const Group& group,
    const std::string& what,
    const std::function<void()>& work);

/// The same for work that can be undone: returns what ranks threw, each text
/// once with the ranks in front of it unless all said the same. Empty: all is
/// well.
std::string problems_of(const Group& group, const std::function<void()>& work);

}  // namespace accelerate
