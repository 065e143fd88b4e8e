// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/adamw_step.h"

#include <ATen/cuda/CUDAContext.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/shadows.h"
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

kernels::AdamWTensor tensor_of(const AdamWStep& work, std::size_t i) {
  const at::Tensor shadow = find_shadow(work.parameters[i]);
  return {
      work.parameters[i].data_ptr<float>(),
      work.gradients[i].data_ptr(),
      work.exp_avgs[i].data_ptr<float>(),
      work.exp_avg_sqs[i].data_ptr<float>(),
      work.steps[i].data_ptr<float>(),
      shadow.defined() ? shadow.data_ptr() : nullptr,
      work.parameters[i].numel()};
}

kernels::AdamWArguments arguments_of(const AdamWStep& work) {
  return {
      .gradient_type = type_of(work.gradients.front()),
      .lr_at = scalar(work.lr),
      .lr = work.lr_value,
      .grad_scale_at = scalar(work.grad_scale),
      .found_inf_at = scalar(work.found_inf),
      .beta1 = work.beta1,
      .beta2 = work.beta2,
      .eps = work.eps,
      .weight_decay = work.weight_decay,
      .maximize = work.maximize};
}

}  // namespace

void adamw_step(const AdamWStep& work) {
  if (work.parameters.empty()) {
    return;
  }
  std::vector<kernels::AdamWTensor> tensors;
  tensors.reserve(work.parameters.size());
  for (std::size_t i = 0; i < work.parameters.size(); ++i) {
    tensors.push_back(tensor_of(work, i));
  }
  kernels::adamw(
      tensors.data(),
      static_cast<int>(tensors.size()),
      arguments_of(work),
      at::cuda::getCurrentCUDAStream().stream());
  for (std::size_t i = 0; i < work.parameters.size(); ++i) {
    note_change(work.parameters[i], tensors[i].shadow != nullptr);
  }
}

}  // namespace accelerate::cuda
