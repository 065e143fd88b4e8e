// SPDX-License-Identifier: Apache-2.0
// The number format of a forward pass, and the options for autocast and loss
// scaling.
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

/// The number format of matmuls and convolutions in mixed precision.
enum class Precision {
  no,    ///< the format of the parameters
  fp16,  ///< with loss scaling; needs a GPU
  bf16,
};

/// Parses `no`, `fp16` or `bf16`, ignoring case.
///
/// Throws `UnsupportedError` for `fp8`. For any other name, throws an
/// `ArgumentError` that lists the choices.
ACCELERATE_API Precision parse_precision(std::string_view name);
ACCELERATE_API std::string_view name_of(Precision precision);

/// Throws `UnsupportedError` for fp16 on a CPU, the only combination that does
/// not work.
ACCELERATE_API void check_precision(
    Precision precision, c10::DeviceType device);

/// Options for autocast inside a guard.
struct AutocastKwargs {
  /// If false, computes in full precision inside the guard.
  bool enabled = true;
  /// Whether a weight that is used several times is cast only once. Default:
  /// the current setting of the thread.
  std::optional<bool> cache_enabled = std::nullopt;
};

/// Options for the gradient scaler, which fp16 uses.
struct GradScalerKwargs {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  /// Number of steps without overflow before the scale grows.
  std::int64_t growth_interval = 2000;
  /// If false, the loss and the gradients are not scaled.
  bool enabled = true;
};

}  // namespace accelerate
