// SPDX-License-Identifier: Apache-2.0
#include "optim/step_tensors.h"

#include <algorithm>

#include <ATen/ops/empty_like.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// The strides of dimensions of size 1 do not matter.
bool same_strides(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_contiguous() && b.is_contiguous()) {
    return true;
  }
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) > 1 && a.stride(i) != b.stride(i)) {
      return false;
    }
  }
  return true;
}

at::Tensor dense(const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) {
    return parameter;
  }
  return at::empty_like(parameter).copy_(parameter);
}

void check_floating(const at::Tensor& parameter) {
  if (!at::isFloatingType(parameter.scalar_type())) {
    throw UnsupportedError(
        str_cat(
            "a parameter of shape ",
            parameter.sizes(),
            " and type ",
            parameter.scalar_type(),
            " cannot be updated: only floating-point types are supported"),
        "use an optimizer from `torch::optim` for this parameter");
  }
}

StepTensors& bucket_for(
    std::vector<StepTensors>& buckets, const at::Tensor& parameter) {
  for (StepTensors& bucket : buckets) {
    const at::Tensor& first = bucket.parameters.front();
    if (first.scalar_type() == parameter.scalar_type() &&
        first.device() == parameter.device()) {
      return bucket;
    }
  }
  return buckets.emplace_back();
}

}  // namespace

at::Tensor laid_out_like(const at::Tensor& like, const at::Tensor& tensor) {
  if (tensor.scalar_type() == like.scalar_type() &&
      tensor.device() == like.device() && same_strides(like, tensor)) {
    return tensor;
  }
  return at::empty_like(like).copy_(tensor);
}

void StepTensors::write_back() const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!values[i].is_same(parameters[i])) {
      parameters[i].copy_(values[i]);
    }
  }
}

std::vector<StepTensors> collect(
    const torch::optim::OptimizerParamGroup& group,
    std::vector<at::Tensor>& sparse) {
  std::vector<StepTensors> buckets;
  for (const at::Tensor& parameter : group.params()) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) {
      continue;
    }
    check_floating(parameter);
    if (gradient.is_sparse()) {
      sparse.push_back(parameter);
      continue;
    }
    StepTensors& bucket = bucket_for(buckets, parameter);
    at::Tensor value = dense(parameter);
    bucket.gradients.push_back(laid_out_like(value, gradient));
    bucket.parameters.push_back(parameter);
    bucket.values.push_back(std::move(value));
  }
  return buckets;
}

}  // namespace accelerate
