// SPDX-License-Identifier: Apache-2.0
// Fused optimizer steps. LibTorch has kernels for these steps only for its own
// devices. Here, each step is composed of operators, which XLA fuses again.
#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "xla/device/registration.h"

namespace accelerate::xla {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// After an overflow of fp16 gradients, a step changes nothing.
class Writes {
 public:
  explicit Writes(const OptionalTensor& found_inf)
      : keeps_(found_inf ? found_inf->eq(0) : at::Tensor()) {}

  void set(const at::Tensor& target, const at::Tensor& value) const {
    target.copy_(keeps_.defined() ? at::where(keeps_, value, target) : value);
  }

 private:
  at::Tensor keeps_;
};

at::Tensor gradient_of(
    const at::Tensor& gradient, bool maximize, const OptionalTensor& scale) {
  const at::Tensor unscaled = scale ? gradient.div(*scale) : gradient;
  if (scale) {
    gradient.copy_(unscaled);
  }
  return maximize ? unscaled.neg() : unscaled;
}

// The rate is a number, or a tensor with one element.
template <typename Rate>
at::Tensor times(const at::Tensor& tensor, const Rate& rate) {
  return tensor.mul(rate);
}

struct AdamNumbers {
  double beta1;
  double beta2;
  double weight_decay;
  double eps;
};

struct AdamTensors {
  at::Tensor value;
  at::Tensor gradient;
  at::Tensor first;
  at::Tensor second;
  at::Tensor largest;  ///< Undefined without amsgrad.
  at::Tensor step;
};

// 1 - beta^step in f64: in f32 the first steps would lose most digits.
at::Tensor bias_correction(double beta, const at::Tensor& step) {
  return at::pow(beta, step.to(at::kDouble)).neg().add(1);
}

template <typename Rate>
void step_tensor(
    const AdamTensors& tensors,
    const AdamNumbers& numbers,
    const Rate& rate,
    bool decays_value,
    const Writes& writes) {
  at::Tensor value = tensors.value;
  at::Tensor gradient = tensors.gradient;
  if (numbers.weight_decay != 0) {
    const at::Tensor decay = value.mul(numbers.weight_decay);
    if (decays_value) {
      value = value.sub(times(decay, rate));
    } else {
      gradient = gradient.add(decay);
    }
  }
  const at::Tensor first =
      tensors.first.mul(numbers.beta1).add(gradient.mul(1 - numbers.beta1));
  const at::Tensor second =
      tensors.second.mul(numbers.beta2)
          .add(gradient.mul(gradient).mul(1 - numbers.beta2));
  at::Tensor variance = second;
  if (tensors.largest.defined()) {
    variance = at::maximum(tensors.largest, second);
    writes.set(tensors.largest, variance);
  }
  const at::Tensor denominator =
      variance.sqrt()
          .div(bias_correction(numbers.beta2, tensors.step).sqrt())
          .add(numbers.eps);
  const at::Tensor step =
      times(first.div(bias_correction(numbers.beta1, tensors.step)), rate);
  writes.set(tensors.value, value.sub(step.div(denominator)));
  writes.set(tensors.first, first);
  writes.set(tensors.second, second);
}

template <bool kDecaysValue, typename Rate>
void fused_adam(
    at::TensorList self,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList max_exp_avg_sqs,
    at::TensorList state_steps,
    Rate lr,
    double beta1,
    double beta2,
    double weight_decay,
    double eps,
    bool amsgrad,
    bool maximize,
    const OptionalTensor& grad_scale,
    const OptionalTensor& found_inf) {
  const Writes writes(found_inf);
  for (std::size_t i = 0; i < self.size(); ++i) {
    step_tensor(
        {self[i],
         gradient_of(grads[i], maximize, grad_scale),
         exp_avgs[i],
         exp_avg_sqs[i],
         amsgrad ? max_exp_avg_sqs[i] : at::Tensor(),
         state_steps[i]},
        {beta1, beta2, weight_decay, eps},
        lr,
        kDecaysValue,
        writes);
  }
}

template <typename Rate>
void fused_sgd(
    at::TensorList self,
    at::TensorList grads,
    at::TensorList momentum_buffers,
    double weight_decay,
    double momentum,
    Rate lr,
    double dampening,
    bool nesterov,
    bool maximize,
    bool is_first_step,
    const OptionalTensor& grad_scale,
    const OptionalTensor& found_inf) {
  const Writes writes(found_inf);
  for (std::size_t i = 0; i < self.size(); ++i) {
    at::Tensor gradient = gradient_of(grads[i], maximize, grad_scale);
    if (weight_decay != 0) {
      gradient = gradient.add(self[i].mul(weight_decay));
    }
    if (momentum != 0) {
      const at::Tensor& buffer = momentum_buffers[i];
      const at::Tensor moved =
          is_first_step ? gradient
                        : buffer.mul(momentum).add(gradient.mul(1 - dampening));
      gradient = nesterov ? gradient.add(moved.mul(momentum)) : moved;
      writes.set(buffer, moved);
    }
    writes.set(self[i], self[i].sub(times(gradient, lr)));
  }
}

}  // namespace

void register_fused_optimizers(torch::Library& aten) {
  using TensorRate = const at::Tensor&;
  aten.impl("_fused_adamw_", &fused_adam<true, double>);
  aten.impl("_fused_adamw_.tensor_lr", &fused_adam<true, TensorRate>);
  aten.impl("_fused_adam_", &fused_adam<false, double>);
  aten.impl("_fused_adam_.tensor_lr", &fused_adam<false, TensorRate>);
  aten.impl("_fused_sgd_", &fused_sgd<double>);
  aten.impl("_fused_sgd_.tensor_lr", &fused_sgd<TensorRate>);
}

}  // namespace accelerate::xla
