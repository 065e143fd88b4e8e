// SPDX-License-Identifier: Apache-2.0
#include "accelerate/clip_grad.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "precision/gradient_values.h"

namespace accelerate {
namespace {

void check_max_norm(double max_norm) {
  if (!(max_norm >= 0)) {
    throw ArgumentError(
        str_cat("`max_norm` is ", max_norm), "pass 0 or a positive number");
  }
}

void check_finite(const at::Tensor& norm, double norm_type) {
  if (!std::isfinite(norm.item<double>())) {
    throw StateError(
        str_cat(
            "the gradient norm (p = ",
            norm_type,
            ") is ",
            norm.item<double>(),
            ", so the gradients cannot be clipped"),
        "find the step whose loss is not finite, or set `error_if_nonfinite` "
        "to false");
  }
}

}  // namespace

Tensor grad_norm(const std::vector<Tensor>& gradients, double norm_type) {
  if (!(norm_type > 0)) {
    throw ArgumentError(
        str_cat("`norm_type` is ", norm_type),
        "pass a positive number, or INFINITY for the largest absolute value");
  }
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> values = gradient_values(gradients);
  if (values.empty()) {
    return at::zeros({});
  }
  std::vector<at::Tensor> norms = at::_foreach_norm(values, norm_type);
  // Norms of several types or devices are combined into one number.
  const auto options = norms.front().options();
  for (at::Tensor& norm : norms) {
    norm = norm.to(options);
  }
  return at::stack(norms).norm(norm_type);
}

void clip_grads_with_norm(
    const std::vector<Tensor>& gradients,
    double max_norm,
    const Tensor& total_norm) {
  check_max_norm(max_norm);
  const at::NoGradGuard no_grad;
  // 1e-6 avoids NaN for gradients with norm 0.
  const at::Tensor factor =
      total_norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0);
  for (const auto& group : by_type(gradient_values(gradients))) {
    // The factor is copied to each device as a tensor, because reading the
    // factor on the CPU would wait for the device that computed it.
    at::_foreach_mul_(group, factor.to(group.front().device()));
  }
}

Tensor clip_grad_norm(
    const std::vector<Tensor>& gradients,
    double max_norm,
    const ClipGradNormOptions& options) {
  check_max_norm(max_norm);
  Tensor norm = grad_norm(gradients, options.norm_type);
  if (options.error_if_nonfinite) {
    check_finite(norm, options.norm_type);
  }
  clip_grads_with_norm(gradients, max_norm, norm);
  return norm;
}

void clip_grad_value(const std::vector<Tensor>& gradients, double clip_value) {
  if (!(clip_value >= 0)) {
    throw ArgumentError(
        str_cat("`clip_value` is ", clip_value), "pass 0 or a positive number");
  }
  const at::NoGradGuard no_grad;
  for (const auto& group : by_type(gradient_values(gradients))) {
    at::_foreach_clamp_min_(group, -clip_value);
    at::_foreach_clamp_max_(group, clip_value);
  }
}

}  // namespace accelerate
