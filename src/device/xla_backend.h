// SPDX-License-Identifier: Apache-2.0
// The XLA device as a device of an Accelerator, chosen by environment
// variables.
#pragma once

#include "accelerate/export.h"
#include "config/environment.h"
#include "device/device_backend.h"

namespace accelerate {

/// Returns whether environment variables choose the XLA device.
bool chooses_xla(const Environment& environment);

/// Opens all XLA devices of this process as `xla:0`, with the options in the
/// environment variables, and makes `device_backend_of` return their backend. A
/// second call returns the same object, or throws `StateError` if the options
/// differ.
///
/// Throws `ConfigError` for a variable with a wrong value, `UnsupportedError`
/// if the library or the plugin cannot be used, and `StateError` if the process
/// did not choose XLA at its start and has already run a backward pass.
ACCELERATE_API DeviceBackend& open_xla_backend(const Environment& environment);

}  // namespace accelerate
