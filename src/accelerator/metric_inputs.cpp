// SPDX-License-Identifier: Apache-2.0
#include "accelerator/metric_inputs.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::metrics {
namespace {

void check_shapes(
    std::string_view metric,
    const at::Tensor& predictions,
    const at::Tensor& references) {
  if (!predictions.defined() || !references.defined()) {
    throw ArgumentError(str_cat(
        "`",
        metric,
        "`: ",
        predictions.defined() ? "references" : "predictions",
        " are an undefined tensor"));
  }
  if (predictions.sizes() != references.sizes()) {
    throw ArgumentError(str_cat(
        "`",
        metric,
        "`: predictions have shape ",
        predictions.sizes(),
        ", references ",
        references.sizes()));
  }
}

void check_classes(
    std::string_view metric, const char* what, const at::Tensor& values) {
  if (!c10::isIntegralType(values.scalar_type(), /*includeBool=*/true)) {
    throw ArgumentError(
        str_cat(
            "`",
            metric,
            "`: ",
            what,
            " are ",
            c10::toString(values.scalar_type()),
            ", classes are whole numbers"),
        "take `logits.argmax(-1)` for predictions");
  }
}

at::Tensor flat(const at::Tensor& values, c10::ScalarType type) {
  return values.detach()
      .to(at::TensorOptions().device(c10::kCPU).dtype(type))
      .contiguous()
      .view({-1});
}

}  // namespace

Inputs class_inputs(
    std::string_view metric,
    const at::Tensor& predictions,
    const at::Tensor& references) {
  check_shapes(metric, predictions, references);
  check_classes(metric, "predictions", predictions);
  check_classes(metric, "references", references);
  return {flat(predictions, at::kLong), flat(references, at::kLong)};
}

Inputs number_inputs(
    std::string_view metric,
    const at::Tensor& predictions,
    const at::Tensor& references) {
  check_shapes(metric, predictions, references);
  if (predictions.is_complex() || references.is_complex()) {
    throw ArgumentError(str_cat("`", metric, "` takes real numbers"));
  }
  return {flat(predictions, at::kDouble), flat(references, at::kDouble)};
}

std::vector<Json> states_of(const Group& group, Json mine) {
  return group.gather_object({std::move(mine)});
}

void check_enough(
    std::string_view metric, std::int64_t count, std::int64_t least) {
  if (count < least) {
    throw StateError(
        str_cat(
            "`",
            metric,
            "` was given ",
            count,
            count == 1 ? " row" : " rows",
            ", it needs ",
            least == 1 ? "at least 1" : str_cat(least)),
        "call `add_batch` before `compute`");
  }
}

}  // namespace accelerate::metrics
