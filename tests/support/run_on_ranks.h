// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of the test.
#pragma once

#include <functional>

#include "accelerate/group.h"

namespace accelerate {

/// Runs `body` on `size` threads, each with its own rank of one group.
///
/// Throws one `std::runtime_error` with what each failing rank threw, the rank
/// in front of it. A group's timeout is 20 s unless `options` says otherwise,
/// so that a test that hangs ends with the names of the missing ranks.
void run_on_ranks(
    int size,
    const GroupOptions& options,
    const std::function<void(Group&)>& body);

/// The options of most tests: the given backend and a short timeout.
GroupOptions quick(Backend backend);

}  // namespace accelerate
