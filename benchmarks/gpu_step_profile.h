// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes, by kind of kernel.
#pragma once

#include <functional>
#include <map>
#include <string>

/// What a step spends.
struct KernelTime {
  double ms = 0.0;
  double count = 0.0;  ///< of kernels
};

/// By kind; `names` gets those of each kernel.
std::map<std::string, KernelTime> profile_kernels(
    const std::function<void()>& step,
    int steps,
    std::map<std::string, KernelTime>& names);

/// Prints the kinds, and the kernels that take longest.
void print_profile(const std::function<void()>& step);
