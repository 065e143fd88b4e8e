// SPDX-License-Identifier: Apache-2.0
// Reports the progress and failures of this process to the launcher.
#pragma once

#include <cstdint>
#include <string>

#include "base/store_client.h"
#include "config/environment.h"

namespace accelerate {

/// Makes this process write its current step, and any uncaught exception, to
/// the files that the launcher's environment variables name. An uncaught
/// `ConfigError` is also printed with its hint and ends the process with the
/// error's exit code. Later calls do nothing.
void attach_to_launcher(const Environment& environment) noexcept;

/// Reports that this process is beginning optimizer step `step`, counted from
/// 1. Only writes to shared memory, so it is cheap enough for every step.
void report_step_to_launcher(std::int64_t step) noexcept;

/// Connects `report_status_to_launcher` to the launcher's store.
void set_launcher_link(const StoreClientOptions& options);

/// Reports what this rank is doing. `accelerate launch` shows `text` in its
/// failure report and when the user presses Ctrl-\. Does nothing if this
/// process was not started by `accelerate launch`. Never throws: training does
/// not depend on the launcher.
///
/// Thread-safe. Takes a round trip to the launcher, which is too slow for every
/// step of a fast loop.
void report_status_to_launcher(const std::string& text) noexcept;

}  // namespace accelerate
