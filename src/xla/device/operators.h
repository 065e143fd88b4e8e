// SPDX-License-Identifier: Apache-2.0
// Registers the kernels of the XLA device with LibTorch's dispatcher.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace accelerate::xla {

/// Registers kernels, allocator, guard, hooks and generator. Must happen before
/// the first `backward` of the process: the autograd engine makes its threads
/// for the devices that exist then. A second call does nothing.
void register_device();

/// How often each operator ran on the CPU for want of a lowering.
std::map<std::string, std::int64_t> cpu_fallbacks();
void clear_cpu_fallbacks();

}  // namespace accelerate::xla
