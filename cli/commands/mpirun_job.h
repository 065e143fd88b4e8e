// SPDX-License-Identifier: Apache-2.0
// A job that `mpirun` starts: what we hand to it, and what is its business.
#pragma once

#include <string>
#include <vector>

#include "base/socket.h"
#include "config/environment.h"
#include "config/settings.h"
#include "launch/hardware.h"

namespace accelerate {

/// With a hostfile, hands the job to `mpirun`, which becomes the one process we
/// watch: ranks and machines are its business, our settings travel with it.
///
/// `free_port` stands for MASTER_PORT where nobody chose one and the job stays
/// on one machine. Throws `ConfigError` for typed options about what `mpirun`
/// does in its own way.
void use_mpirun(
    Settings& settings,
    std::vector<std::string>& words,
    const Hardware& hardware,
    const Environment& environment,
    const std::string& free_port);

/// Whether `use_mpirun` asks for a free port.
bool needs_free_mpirun_port(const Settings& settings);

}  // namespace accelerate
