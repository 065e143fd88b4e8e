// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes, by kind of kernel.
#pragma once

#include <functional>
#include <map>
#include <string>

/// Milliseconds a step, by kind; `names` gets those of each kernel.
std::map<std::string, double> profile_kernels(
    const std::function<void()>& step,
    int steps,
    std::map<std::string, double>& names);
