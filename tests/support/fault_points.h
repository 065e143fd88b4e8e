// SPDX-License-Identifier: Apache-2.0
// Makes the process fail at a chosen call that changes the file system.
//
// In a binary that links fault_points.cpp, such calls from all libraries are
// intercepted.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace accelerate {

/// From now on, counts the intercepted calls, and kills the process just before
/// call number `at` (the next call is number 1).
void kill_at_call(int at);

/// Starting with call number `at`, makes all calls that need disk space fail
/// with `error`.
void fail_from_call(int at, int error);

/// Makes only call number `at` fail with `error`, even if that call needs no
/// disk space. Later calls succeed, so a test can detect that the program
/// ignores this error.
void fail_at_call(int at, int error);
/// Returns the call that `fail_at_call` made fail, in the notation of
/// `record_calls`; empty if no call has failed yet.
std::string failed_call();

/// Until the process exits, makes calls of `renameat2` with flags fail, as on
/// file systems that do not support the flags.
void refuse_rename_flags();

/// Splits writes from now on, so that `kill_at_call` can kill the process in
/// the middle of a write.
void split_writes();

/// Makes removals of paths that contain `part` fail with EPERM from now on.
void protect_path(std::string part);

/// Records calls from now on. An entry such as "fsync manifest.json" contains
/// the name of the call and the last part of the path, which is "tmp" for a
/// temporary folder. "close" stands for closing a written file, and "direct"
/// for a write that bypasses the cache.
void record_calls();
std::vector<std::string> recorded_calls();

/// Calls `wait` at the first write, in the thread that writes.
void block_first_write(std::function<void()> wait);

/// Delays every write and fsync by `each`, until the process exits.
void slow_down(std::chrono::milliseconds each);

/// Cancels `kill_at_call`, `fail_from_call` or `fail_at_call`. Returns the
/// number of calls counted since that function was called.
int disarm();

}  // namespace accelerate
