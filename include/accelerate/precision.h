// SPDX-License-Identifier: Apache-2.0
// Which number format a forward pass computes in, and how it is switched on.
//
//     const auto precision = accelerate::parse_precision("bf16");
//     accelerate::check_precision(precision, device.type());
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <c10/core/DeviceType.h>

#include "accelerate/export.h"

namespace accelerate {

/// The format of matrix products and convolutions under mixed precision.
enum class Precision {
  no,    ///< what the parameters have
  fp16,  ///< with a gradient scaler, on an accelerator only
  bf16,
};

/// Parses `no`, `fp16` or `bf16`, in any case.
///
/// Throws `UnsupportedError` for `fp8`, `ArgumentError` with the choices for
/// everything else.
ACCELERATE_API Precision parse_precision(std::string_view name);
ACCELERATE_API std::string_view name_of(Precision precision);

/// Throws `UnsupportedError` when `device` cannot train in that precision:
/// fp16 on a CPU.
ACCELERATE_API void check_precision(
    Precision precision, c10::DeviceType device);

/// How autocast behaves inside a guard.
struct AutocastKwargs {
  /// False: a region in full precision inside one that is not.
  bool enabled = true;
  /// Whether a weight that is used twice is cast once; the setting outside
  /// when left out.
  std::optional<bool> cache_enabled = std::nullopt;
};

/// How the gradient scaler of fp16 moves.
struct GradScalerKwargs {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  /// So many steps without overflow before the scale grows.
  std::int64_t growth_interval = 2000;
  /// False: everything passes through unscaled.
  bool enabled = true;
};

}  // namespace accelerate
