// SPDX-License-Identifier: Apache-2.0
// What a short program prints, within a time limit.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace accelerate {

/// Runs `words` with an empty input and returns what it wrote to stdout and
/// stderr, at most 64 KiB. Throws `ConfigError` when it cannot be started or
/// has not ended within `timeout`; it is killed then.
std::string program_output(
    std::vector<std::string> words,
    std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace accelerate
