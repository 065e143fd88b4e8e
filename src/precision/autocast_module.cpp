// SPDX-License-Identifier: Apache-2.0
#include "accelerate/autocast_module.h"

namespace accelerate {
namespace detail {

std::vector<at::Tensor> outputs_to_fp32(
    const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result = tensors;
  for (at::Tensor& tensor : result) {
    if (tensor.defined() && (tensor.scalar_type() == at::kHalf ||
                             tensor.scalar_type() == at::kBFloat16)) {
      tensor = tensor.to(at::kFloat);
    }
  }
  return result;
}

}  // namespace detail

AutocastModule::~AutocastModule() = default;

void AutocastModule::set_autocast(std::optional<AutocastPolicy> policy) {
  policy_ = std::move(policy);
}

}  // namespace accelerate
