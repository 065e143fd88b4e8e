// SPDX-License-Identifier: Apache-2.0
// Measures how much of a step's time each kind of CUDA kernel takes.
#pragma once

#include <functional>
#include <map>
#include <string>

/// The time that a kind of CUDA kernel takes per step.
struct KernelTime {
  double ms = 0.0;
  double count = 0.0;  ///< Kernels per step.
};

/// Runs `step` `steps` times. Returns the time per step for each kind of
/// kernel; `names` receives the time per step for each kernel name.
std::map<std::string, KernelTime> profile_kernels(
    const std::function<void()>& step,
    int steps,
    std::map<std::string, KernelTime>& names);

/// Profiles `step`. Prints the time for each kind of kernel, and the kernels
/// that take the most time.
void print_profile(const std::function<void()>& step);
