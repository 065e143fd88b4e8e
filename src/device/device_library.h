// SPDX-License-Identifier: Apache-2.0
// Opens the library of an accelerator when it is there to be used.
#pragma once

#include <string>

#include "device/device_backend.h"

namespace accelerate {

/// Opens libaccelerate_cuda.so, and LibTorch's CUDA with it, and asks nothing
/// of either. Returns its path.
///
/// Throws `UnsupportedError` that says what is missing, each time.
ACCELERATE_API const std::string& load_cuda_libraries();

/// The CUDA backend. Opens libaccelerate_cuda.so, and LibTorch's CUDA with it,
/// the first time.
///
/// Throws `UnsupportedError` that says what is missing, each time.
ACCELERATE_API DeviceBackend& cuda_backend();

/// The accelerator of this host, if it has one that can be used. Without a
/// driver this costs nothing.
ACCELERATE_API DeviceBackend* find_device_backend();

/// Why `find_device_backend` gives nothing, though there is a driver; empty
/// when there is none either, or nothing is wrong.
ACCELERATE_API std::string device_problem();

/// The backend of a device that tensors lie on; null for the CPU, and for
/// kinds that have none.
ACCELERATE_API DeviceBackend* device_backend_of(c10::Device device);

/// Takes `backend` for the devices of a kind, before any library is asked; null
/// takes it away again. For kinds that no library of ours knows, and for tests
/// that stand in for one. Not while tensors of that kind are in use.
ACCELERATE_API void offer_device_backend(
    c10::DeviceType type, DeviceBackend* backend);

/// Opens a library and returns its backend; `cuda_backend` does it for ours.
ACCELERATE_API DeviceBackend& open_device_library(const std::string& library);

}  // namespace accelerate
