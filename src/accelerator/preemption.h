// SPDX-License-Identifier: Apache-2.0
// Signals that ask a run to save and stop.
#pragma once

namespace accelerate {

/// From the first call on, SIGTERM and SIGUSR1 are noted instead of ending the
/// process. A second SIGTERM ends it after all.
void install_preemption_handlers();

/// Whether one of them came since.
bool preemption_requested();

}  // namespace accelerate
