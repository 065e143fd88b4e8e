// SPDX-License-Identifier: Apache-2.0
// Makes the process fail at a chosen call that changes the file system.
//
// A binary that links fault_points.cpp takes the calls of every library in it
// before the C library does.
#pragma once

#include <functional>

namespace accelerate {

/// The call number `at`, counted from 1 from now on, kills the process before
/// anything happens.
void kill_at_call(int at);

/// The call number `at` and all later ones that need room on the disk fail
/// with that error.
void fail_from_call(int at, int error);

/// Calls `wait` in the first write, in whatever thread it happens.
void hold_first_write(std::function<void()> wait);

/// Everything works again. Returns how many calls were counted.
int disarm();

}  // namespace accelerate
