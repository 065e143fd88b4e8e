// SPDX-License-Identifier: Apache-2.0
// Describes signals and exit codes.
#pragma once

#include <string>

namespace accelerate {

/// Returns the name of a signal: "SIGKILL", or "signal 35" for a signal without
/// a name.
std::string signal_name(int signal);

/// Describes how a process ended: "exited with code 3" or "killed by SIGKILL".
std::string describe_exit(int exit_code, int signal);

}  // namespace accelerate
