// SPDX-License-Identifier: Apache-2.0
// The number formats that a device supports.
#pragma once

#include <optional>
#include <string>

#include "accelerate/error.h"
#include "accelerate/precision.h"
#include "device/device_backend.h"

namespace accelerate {

/// The formats that a device supports in hardware, in addition to fp32.
struct DeviceFormats {
  /// The device's name in messages, such as `GPU 0, NVIDIA H200 (sm_90)`.
  std::string device;
  bool bf16 = false;
  bool fp16 = false;
};

/// Returns an error that explains why the device does not support `precision`.
/// Returns nothing if the device supports `precision`.
std::optional<UnsupportedError> precision_problem(
    Precision precision, const DeviceFormats& formats);

/// Throws the error from `precision_problem` if device `index` of `backend`
/// does not support `precision`.
void check_device_precision(
    Precision precision, const DeviceBackend& backend, int index);

}  // namespace accelerate
