// SPDX-License-Identifier: Apache-2.0
// A base class for user-defined modules, in addition to `torch::nn::Module`. It
// lets a module run `forward` under autocast.
//
//     struct Net : torch::nn::Module, accelerate::AutocastModule {
//       at::Tensor forward(const at::Tensor& x) {
//         return with_autocast([&] { return head->forward(x); });
//       }
//       torch::nn::Linear head = nullptr;
//     };
//
// `prepare` detects the base class and sets the module's precision. Outside
// `forward`, autocast stays off, as in Hugging Face Accelerate.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/autocast.h"
#include "accelerate/export.h"
#include "accelerate/nest.h"
#include "accelerate/precision.h"

namespace accelerate {

/// The autocast settings for a module.
struct AutocastPolicy {
  c10::DeviceType device = c10::DeviceType::CPU;
  Precision precision = Precision::no;
  AutocastKwargs autocast = {};
};

namespace detail {
/// Converts each 16-bit float tensor to fp32.
ACCELERATE_API std::vector<at::Tensor> outputs_to_fp32(
    const std::vector<at::Tensor>& tensors);
}  // namespace detail

/// A module whose `forward` computes in the precision of its policy and returns
/// fp32. Until `set_autocast` is called, this class has no effect.
class ACCELERATE_API AutocastModule {
 public:
  AutocastModule() = default;
  AutocastModule(const AutocastModule&) = default;
  AutocastModule& operator=(const AutocastModule&) = default;
  virtual ~AutocastModule();

  /// Sets the policy. The Accelerator calls this once in `prepare`, and again
  /// with `std::nullopt` when the Accelerator is destroyed. Override
  /// `set_autocast` to pass the policy to submodules whose `forward` is called
  /// directly.
  virtual void set_autocast(std::optional<AutocastPolicy> policy);
  const std::optional<AutocastPolicy>& autocast_policy() const {
    return policy_;
  }

 protected:
  /// Runs `body` under the policy. Converts 16-bit floats in the result of
  /// `body` to fp32. The result may be a tensor or nested containers of tensors
  /// (see nest.h).
  template <typename Body>
  auto with_autocast(Body&& body) const {
    if (!policy_ || policy_->precision == Precision::no) {
      return std::forward<Body>(body)();
    }
    // The conversion happens outside the guard, so that its backward pass is a
    // plain cast.
    auto outputs = [&] {
      const AutocastGuard guard(
          policy_->device, policy_->precision, policy_->autocast);
      return std::forward<Body>(body)();
    }();
    return with_tensors(outputs, detail::outputs_to_fp32(tensors_of(outputs)));
  }

 private:
  std::optional<AutocastPolicy> policy_;
};

}  // namespace accelerate
