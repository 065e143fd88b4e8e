// SPDX-License-Identifier: Apache-2.0
// Runs ranks as threads of the test.
#pragma once

#include <functional>

#include "accelerate/group.h"

namespace accelerate {

/// Runs `body` on `size` threads, each with its own rank in one group.
///
/// Throws one `std::runtime_error` with the rank and the message of each
/// failing rank. A test that hangs ends after the timeout in `options`, and the
/// error names the missing ranks.
void run_on_ranks(
    int size,
    const GroupOptions& options,
    const std::function<void(Group&)>& body);

/// Returns the options that most tests use: `backend` and a timeout of 20 s.
GroupOptions quick(Backend backend);

}  // namespace accelerate
