// SPDX-License-Identifier: Apache-2.0
// Which formats a device trains in.
#pragma once

#include <optional>
#include <string>

#include "accelerate/error.h"
#include "accelerate/precision.h"
#include "device/device_backend.h"

namespace accelerate {

/// What a device computes in by itself, besides fp32.
struct DeviceFormats {
  /// `GPU 0, NVIDIA H200 (sm_90)`.
  std::string device;
  bool bf16 = false;
  bool fp16 = false;
};

/// Why the device cannot train in `precision`, and what it can; nothing when
/// it can.
std::optional<UnsupportedError> precision_problem(
    Precision precision, const DeviceFormats& formats);

/// Throws that problem for a device of `backend`.
void check_device_precision(
    Precision precision, const DeviceBackend& backend, int index);

}  // namespace accelerate
