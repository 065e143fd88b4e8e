// SPDX-License-Identifier: Apache-2.0
#include "accelerate/precision.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {

Precision parse_precision(std::string_view name) {
  std::string lower(name);
  std::transform(
      lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
      });
  for (const Precision precision :
       {Precision::no, Precision::fp16, Precision::bf16}) {
    if (lower == name_of(precision)) {
      return precision;
    }
  }
  if (lower == "fp8") {
    throw UnsupportedError(
        "mixed precision `fp8` needs GPU kernels that accelerate does not have",
        "use `bf16`");
  }
  throw ArgumentError(str_cat(
      "mixed precision is `", name, "`, but must be one of no, fp16, bf16"));
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::no:
      return "no";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
  }
  return "?";
}

void check_precision(Precision precision, c10::DeviceType device) {
  if (precision == Precision::fp16 && device == c10::DeviceType::CPU) {
    throw UnsupportedError(
        "mixed precision `fp16` needs a GPU, but this process runs on the CPU",
        "use `bf16` or `no`");
  }
}

}  // namespace accelerate
