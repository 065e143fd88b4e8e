// SPDX-License-Identifier: Apache-2.0
// Captures the output of a short program, with a timeout.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace accelerate {

/// Runs the command `argv` with empty input and returns at most 64 KiB of its
/// stdout and stderr. Throws `ConfigError` if the program cannot be started or
/// does not finish within `timeout`. A program that times out is killed.
std::string program_output(
    std::vector<std::string> argv,
    std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace accelerate
