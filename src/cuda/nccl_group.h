// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs: LibTorch's NCCL process group.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "device/device_backend.h"

namespace accelerate::cuda {

/// Throws `UnsupportedError` if the loaded NCCL version differs in its major or
/// minor number from the NCCL version that this library was compiled with. The
/// numbers must match because the options for a process group contain an NCCL
/// struct.
void check_nccl_version();

/// Creates an NCCL process group, and connects this rank to the other ranks
/// immediately, on `options.device`.
c10::intrusive_ptr<c10d::Backend> make_nccl_group(
    const DeviceGroupOptions& options);

}  // namespace accelerate::cuda
