// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/adamw_step.h"

#include <ATen/cuda/CUDAContext.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/kernels/adamw.h"

namespace accelerate::cuda {
namespace {

kernels::Type type_of(const at::Tensor& gradient) {
  switch (gradient.scalar_type()) {
    case at::kBFloat16:
      return kernels::Type::bf16;
    case at::kHalf:
      return kernels::Type::f16;
    case at::kFloat:
      return kernels::Type::f32;
    default:
      throw ArgumentError(str_cat(
          "AdamW has no kernel for gradients of type ",
          gradient.scalar_type()));
  }
}

const float* scalar(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

kernels::AdamWTensor tensor_of(const AdamWStep& step, std::size_t i) {
  const at::Tensor bf16_copy = find_low_precision_copy(step.parameters[i]);
  return {
      step.parameters[i].data_ptr<float>(),
      step.gradients[i].data_ptr(),
      step.exp_avgs[i].data_ptr<float>(),
      step.exp_avg_sqs[i].data_ptr<float>(),
      step.steps[i].data_ptr<float>(),
      bf16_copy.defined() ? bf16_copy.data_ptr() : nullptr,
      step.parameters[i].numel()};
}

kernels::AdamWArguments arguments_of(const AdamWStep& step) {
  return {
      .gradient_type = type_of(step.gradients.front()),
      .lr_at = scalar(step.lr),
      .lr = step.lr_value,
      .grad_scale_at = scalar(step.grad_scale),
      .found_inf_at = scalar(step.found_inf),
      .beta1 = step.beta1,
      .beta2 = step.beta2,
      .eps = step.eps,
      .weight_decay = step.weight_decay,
      .maximize = step.maximize};
}

}  // namespace

void adamw_step(const AdamWStep& step) {
  if (step.parameters.empty()) {
    return;
  }
  std::vector<kernels::AdamWTensor> tensors;
  tensors.reserve(step.parameters.size());
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    tensors.push_back(tensor_of(step, i));
  }
  kernels::adamw(
      tensors.data(),
      static_cast<int>(tensors.size()),
      arguments_of(step),
      at::cuda::getCurrentCUDAStream().stream());
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    mark_changed(step.parameters[i], tensors[i].bf16_copy != nullptr);
  }
}

}  // namespace accelerate::cuda
