// SPDX-License-Identifier: Apache-2.0
// Meant for subclassing: a second base class of modules that know autocast.
//
//     struct Net : torch::nn::Module, accelerate::AutocastModule {
//       at::Tensor forward(const at::Tensor& x) {
//         return with_autocast([&] { return head->forward(x); });
//       }
//       torch::nn::Linear head = nullptr;
//     };
//
// `prepare` finds the base class, hands it the precision, and leaves autocast
// off everywhere else: exactly what the Python peer does with `forward`.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/autocast.h"
#include "accelerate/export.h"
#include "accelerate/nest.h"
#include "accelerate/precision.h"

namespace accelerate {

/// What a module needs to know to switch autocast on by itself.
struct AutocastPolicy {
  c10::DeviceType device = c10::DeviceType::CPU;
  Precision precision = Precision::no;
  AutocastKwargs autocast = {};
  /// Whether a model that can record its steps on the device may do so.
  bool record_steps = false;
  /// Why it may not, where the user did not ask for that: for the model to say.
  std::string why_not_recorded = {};
};

namespace detail {
/// Each 16-bit float tensor as fp32.
ACCELERATE_API std::vector<at::Tensor> outputs_to_fp32(
    const std::vector<at::Tensor>& tensors);
}  // namespace detail

/// A module whose `forward` runs in the precision it was given and returns
/// fp32. Without `set_autocast` it computes as if this class were not there.
class ACCELERATE_API AutocastModule {
 public:
  AutocastModule() = default;
  AutocastModule(const AutocastModule&) = default;
  AutocastModule& operator=(const AutocastModule&) = default;
  virtual ~AutocastModule();

  /// The Accelerator calls this once, in `prepare`, and again with nothing
  /// when it ends. Override it to hand the policy on to parts with a `forward`
  /// of their own that is called from outside.
  virtual void set_autocast(std::optional<AutocastPolicy> policy);
  const std::optional<AutocastPolicy>& autocast_policy() const {
    return policy_;
  }

 protected:
  /// Runs `body` under the policy; 16-bit floats in what it returns (any nest
  /// of tensors) become fp32.
  template <typename Body>
  auto with_autocast(Body&& body) const {
    if (!policy_ || policy_->precision == Precision::no) {
      return std::forward<Body>(body)();
    }
    // The conversion comes after the guard, so that its backward is that of a
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
