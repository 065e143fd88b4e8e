// SPDX-License-Identifier: Apache-2.0
// What this process tells the launcher about itself, for people who ask.
#pragma once

#include <string>

#include "base/store_client.h"

namespace accelerate {

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
