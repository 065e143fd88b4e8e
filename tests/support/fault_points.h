// SPDX-License-Identifier: Apache-2.0
// Makes the process fail at a chosen call that changes the file system.
//
// A binary that links fault_points.cpp takes the calls of every library in it
// before the C library does.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace accelerate {

/// The call number `at`, counted from 1 from now on, kills the process before
/// anything happens.
void kill_at_call(int at);

/// The call number `at` and all later ones that need room on the disk fail
/// with that error.
void fail_from_call(int at, int error);

/// The call number `at` alone fails with that error, whatever it is: what
/// nobody looks at is not hidden by the next one that fails.
void fail_at_call(int at, int error);
/// Which call that was, as `record_calls` tells it; empty before.
std::string failed_call();

/// As if the file system knew no flags for `renameat2`, until the process ends.
void refuse_rename_flags();

/// Writes in small pieces from now on, so that the death of `kill_at_call` may
/// come in the middle of what a program writes at once.
void tear_writes();

/// What has this in its path cannot be removed or renamed any more: EPERM.
void keep_path(std::string part);

/// Remembers calls from now on, as "fsync manifest.json": the name of the call
/// and the last part of the path, which for a temporary folder is "tmp".
/// "close" is of a file that was written, "direct" a write past the cache.
void record_calls();
std::vector<std::string> recorded_calls();

/// Calls `wait` in the first write, in whatever thread it happens.
void hold_first_write(std::function<void()> wait);

/// Every write and every fsync takes so much longer, until the process ends.
void slow_down(std::chrono::milliseconds each);

/// Everything works again. Returns how many calls were counted.
int disarm();

}  // namespace accelerate
