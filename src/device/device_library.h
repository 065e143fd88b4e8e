// SPDX-License-Identifier: Apache-2.0
// Loads the library for this machine's accelerator if the accelerator can be
// used.
#pragma once

#include <cstdint>
#include <string>

#include "device/device_backend.h"

namespace accelerate {

/// Loads libaccelerate_cuda.so and LibTorch's CUDA libraries without
/// initializing CUDA. Returns the path to libaccelerate_cuda.so.
///
/// If a library or the driver is missing, every call throws an
/// `UnsupportedError` that names the missing part.
ACCELERATE_API const std::string& load_cuda_libraries();

/// Returns the CUDA backend. The first call loads libaccelerate_cuda.so and
/// LibTorch's CUDA libraries.
///
/// If CUDA cannot be used, every call throws an `UnsupportedError` that states
/// the reason, for example a missing library or driver.
ACCELERATE_API DeviceBackend& cuda_backend();

/// Returns the backend for this machine's accelerator, or null if there is no
/// usable accelerator. Without a driver, the call is cheap: no library is
/// loaded.
ACCELERATE_API DeviceBackend* find_device_backend();

/// Returns the reason why the backend cannot be used although there is a
/// driver. Empty if there is no driver, or if the backend can be used.
ACCELERATE_API std::string device_problem();

/// Returns the backend for tensors on `device`. Returns null for the CPU and
/// for device types without a backend. For a CUDA device, throws
/// `UnsupportedError` if CUDA cannot be used.
ACCELERATE_API DeviceBackend* device_backend_of(c10::Device device);

/// Returns the interface of a device that records operators, or null if
/// `device` runs each operator when it is called.
ACCELERATE_API LazyDevice* lazy_device_of(c10::Device device);

/// Returns whether copies between pinned CPU memory and `device` run in the
/// background. False for the CPU.
ACCELERATE_API bool uses_pinned_memory(c10::Device device);

/// Seeds the random number generators of all devices that
/// `torch::manual_seed` does not seed.
ACCELERATE_API void seed_other_devices(std::uint64_t seed);

/// Returns the fused operations for tensors on devices of this type. Returns
/// null if there are none, or if the library for this type is not loaded; does
/// not load a library.
ACCELERATE_API const FusedBlocks* fused_blocks_of(c10::DeviceType type);

/// Makes `device_backend_of` return `backend` for all devices of this type,
/// even if a library of this project supports the type. Null removes the
/// registration. Used for device types that these libraries do not support, and
/// for fake devices in tests. Must not be called while tensors on a device of
/// this type are in use.
ACCELERATE_API void register_device_backend(
    c10::DeviceType type, DeviceBackend* backend);

/// Loads the device library at the path `library` and returns its backend.
/// Throws `UnsupportedError` if the library cannot be loaded, or if it was
/// built for a different version of the device interface, the fused blocks or
/// LibTorch.
ACCELERATE_API DeviceBackend& open_device_library(const std::string& library);

}  // namespace accelerate
