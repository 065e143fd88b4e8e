// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs: LibTorch's process group over NCCL.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "device/device_backend.h"

namespace accelerate::cuda {

/// Throws `UnsupportedError` when the NCCL that is loaded is not of the release
/// this library was compiled with: the options of a group hold a structure of
/// NCCL's.
void check_nccl_version();

/// A group whose communicator is made at once, on `options.device`.
c10::intrusive_ptr<c10d::Backend> make_nccl_group(
    const DeviceGroupOptions& options);

}  // namespace accelerate::cuda
