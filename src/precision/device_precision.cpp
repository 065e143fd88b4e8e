// SPDX-License-Identifier: Apache-2.0
#include "precision/device_precision.h"

#include "base/str_cat.h"

namespace accelerate {

std::optional<UnsupportedError> precision_problem(
    Precision precision, const DeviceFormats& formats) {
  const bool can = precision == Precision::no ||
                   (precision == Precision::bf16 ? formats.bf16 : formats.fp16);
  if (can) {
    return std::nullopt;
  }
  const char* const other = formats.bf16 ? "bf16" : "fp16";
  const bool has_other = formats.bf16 || formats.fp16;
  return UnsupportedError(
      str_cat(
          formats.device,
          ", does not support `",
          name_of(precision),
          "`, only ",
          has_other ? str_cat("`", other, "` and fp32") : "fp32"),
      has_other ? str_cat("use `", other, "` or `no`") : "use `no`");
}

void check_device_precision(
    Precision precision, const DeviceBackend& backend, int index) {
  const auto problem = precision_problem(
      precision,
      {str_cat("GPU ", index, ", ", backend.describe(index)),
       backend.computes_in(c10::ScalarType::BFloat16, index),
       backend.computes_in(c10::ScalarType::Half, index)});
  if (problem) {
    throw UnsupportedError(problem->what(), problem->hint());
  }
}

}  // namespace accelerate
