// SPDX-License-Identifier: Apache-2.0
// Signals by name.
#pragma once

#include <string>

namespace accelerate {

/// "SIGKILL"; "signal 35" where there is no name.
std::string signal_name(int signal);

/// "exited with code 3", "killed by SIGKILL".
std::string describe_exit(int exit_code, int signal);

}  // namespace accelerate
