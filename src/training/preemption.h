// SPDX-License-Identifier: Apache-2.0
// Handles the signals that ask a run to save a checkpoint and stop.
#pragma once

#include "accelerate/group.h"

namespace accelerate {

/// Installs handlers for SIGTERM and SIGUSR1. From then on, these signals no
/// longer kill the process; `preemption_requested` reports them. After the
/// first SIGTERM, further SIGTERMs are ignored during the launcher's grace
/// period (30 s without `accelerate launch`); after this period, a SIGTERM
/// kills the process. Only the first call of this function has an effect.
void install_preemption_handlers();

/// Returns whether the process has received SIGTERM or SIGUSR1 since
/// `install_preemption_handlers`.
bool preemption_requested();

/// Installs the handlers and returns whether any rank has received SIGTERM or
/// SIGUSR1; the same on every rank. Collective.
bool preemption_requested(const Group& group);

}  // namespace accelerate
