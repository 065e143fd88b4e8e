// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_inputs.h"

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
        "`: the ",
        predictions.defined() ? "references" : "predictions",
        " tensor is undefined"));
  }
  if (predictions.sizes() != references.sizes()) {
    throw ArgumentError(str_cat(
        "`",
        metric,
        "`: predictions have shape ",
        predictions.sizes(),
        ", but references have shape ",
        references.sizes()));
  }
}

void check_classes(
    std::string_view metric, const char* input, const at::Tensor& values) {
  if (!c10::isIntegralType(values.scalar_type(), /*includeBool=*/true)) {
    throw ArgumentError(
        str_cat(
            "`",
            metric,
            "`: ",
            input,
            " have type ",
            c10::toString(values.scalar_type()),
            ", but classes must be integers"),
        "pass class indices, such as `logits.argmax(-1)` for the predictions");
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
    throw ArgumentError(str_cat(
        "`", metric, "` supports only real numbers, but got complex numbers"));
  }
  return {flat(predictions, at::kDouble), flat(references, at::kDouble)};
}

std::vector<Json> gather_states(const Group& group, Json local_state) {
  return group.gather_object({std::move(local_state)});
}

void check_min_count(
    std::string_view metric, std::int64_t count, std::int64_t min) {
  if (count < min) {
    throw StateError(
        str_cat(
            "`",
            metric,
            "` got ",
            count,
            count == 1 ? " row" : " rows",
            ", but needs at least ",
            min),
        "call `add_batch` before `compute`");
  }
}

}  // namespace accelerate::metrics
