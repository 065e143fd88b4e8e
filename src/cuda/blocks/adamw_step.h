// SPDX-License-Identifier: Apache-2.0
// AdamW on lists of tensors, parameters and their bf16 shadows in one pass.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

struct AdamWStep {
  std::vector<at::Tensor> parameters;  ///< fp32, dense.
  std::vector<at::Tensor> gradients;   ///< fp32, bf16 or fp16, all alike.
  std::vector<at::Tensor> exp_avgs;    ///< fp32, laid out as the parameters.
  std::vector<at::Tensor> exp_avg_sqs;
  at::Tensor lr;          ///< One float on the device; undefined: `lr_value`.
  at::Tensor step;        ///< Steps with this one, a float on the device.
  at::Tensor grad_scale;  ///< May be undefined, as `found_inf`.
  at::Tensor found_inf;
  double lr_value = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool maximize = false;
};

/// Parameters change without LibTorch's noticing (their versions stay), so
/// that their shadows, which change with them, count as up to date.
void adamw_step(const AdamWStep& work);

}  // namespace accelerate::cuda
