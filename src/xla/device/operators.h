// SPDX-License-Identifier: Apache-2.0
// Registers the kernels of the XLA device with LibTorch's dispatcher.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace accelerate::xla {

/// Registers kernels, allocator, guard, hooks and generator. Must be called
/// before the first `backward` of the process, because that `backward` creates
/// the autograd engine's threads, and creates them only for devices that exist
/// at that time. A second call does nothing.
void register_device();
/// Throws `StateError` if `register_device` was called after the first
/// `backward` of the process.
void check_registered_in_time();

/// Returns how often each operator ran on the CPU because it has no lowering.
std::map<std::string, std::int64_t> cpu_fallbacks();
void clear_cpu_fallbacks();

}  // namespace accelerate::xla
