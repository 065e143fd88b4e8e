// SPDX-License-Identifier: Apache-2.0
// What this process tells the launcher about itself, for people who ask.
#pragma once

#include <cstdint>
#include <string>

#include "base/store_client.h"
#include "config/environment.h"

namespace accelerate {

/// Lets this process be followed by the launcher that its variables name: its
/// steps, and the exception it dies of when nobody catches it. Does nothing
/// without one, and nothing the second time.
void attach_to_launcher(const Environment& environment) noexcept;

/// Says that this process begins its `step`-th update, counted from 1. A store
/// into shared memory: for every step of any loop.
void note_step(std::int64_t step) noexcept;

/// From now on `tell_launcher` reaches the launcher's store.
void set_launcher_link(const StoreClientOptions& options);

/// Says what this rank is doing; shown by `accelerate launch` on Ctrl-\ and in
/// its report of a failure. Does nothing without a launcher of ours, and never
/// throws: training does not depend on who listens.
///
/// Thread-safe. One round trip; not for every step of a fast loop.
void tell_launcher(const std::string& text) noexcept;

/// Says which exception this rank is about to die of.
void report_failure_to_launcher(const std::string& text) noexcept;

}  // namespace accelerate
