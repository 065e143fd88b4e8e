// SPDX-License-Identifier: Apache-2.0
// Optimizer steps that arrive as one operator over all parameters.
#include <cmath>

#include "accelerate/error.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// The arguments of _fused_adam_ and _fused_adamw_ by position: parameters,
// gradients, first and second moments, their maxima, step counts, then numbers.
struct Adam {
  Value lr;
  double beta1;
  double beta2;
  double weight_decay;
  double epsilon;
  bool amsgrad;
  bool maximize;
  bool decoupled;  ///< The weight decay acts on the parameter (AdamW).
};

struct AdamTensors {
  at::Tensor parameter;
  at::Tensor gradient;
  at::Tensor first;
  at::Tensor second;
  at::Tensor largest;
  at::Tensor step;
};

Value step_of(const at::Tensor& step, ElementType type) {
  return is_xla(step) ? convert(read(step), type)
                      : scalar(step.item().toDouble(), type);
}

// a + rate * (b - a)
Value moved(const Value& a, const Value& b, double rate) {
  return add(a, times(rate, sub(b, a)));
}

// 1 - beta^step
Value bias_correction(double beta, const Value& step) {
  const Value base = constant_like(beta, step);
  return sub(constant_like(1, step), binary(Op::power, base, step));
}

void update(const Adam& adam, const AdamTensors& tensors) {
  const ElementType type = element_type_of(tensors.parameter.scalar_type());
  const ElementType wide = accumulation_type(type);
  Value parameter = convert(read(tensors.parameter), wide);
  Value gradient = convert(read(tensors.gradient), wide);
  const Value lr = convert(adam.lr, wide);
  if (adam.maximize) {
    gradient = negate(gradient);
  }
  if (adam.weight_decay != 0) {
    if (adam.decoupled) {
      parameter =
          sub(parameter,
              mul(mul(lr, constant_like(adam.weight_decay, lr)), parameter));
    } else {
      gradient = add(gradient, times(adam.weight_decay, parameter));
    }
  }
  const Value first =
      moved(convert(read(tensors.first), wide), gradient, 1 - adam.beta1);
  const Value old_second = convert(read(tensors.second), wide);
  const Value second = add(
      times(adam.beta2, old_second), times(1 - adam.beta2, square(gradient)));
  write(tensors.first, first);
  write(tensors.second, second);
  const Value step = step_of(tensors.step, wide);
  Value spread = second;
  if (adam.amsgrad) {
    spread = maximum(convert(read(tensors.largest), wide), second);
    write(tensors.largest, spread);
  }
  const Value root = sqrt(bias_correction(adam.beta2, step));
  const Value denominator =
      add(divide(sqrt(spread), root), constant_like(adam.epsilon, spread));
  const Value size = divide(lr, bias_correction(adam.beta1, step));
  write(
      tensors.parameter, sub(parameter, mul(size, divide(first, denominator))));
}

void refuse_scaling(const Call& call, std::size_t first) {
  if (call.has_tensor(first) || call.has_tensor(first + 1)) {
    throw UnsupportedError(
        "loss scaling in a fused optimizer is not supported",
        "train in bf16, which needs no loss scaling");
  }
}

Lowering fused_adam(const char* name, bool decoupled) {
  return {name, [decoupled](Call& call) {
            refuse_scaling(call, 13);
            const Adam adam{
                call.value(6, ElementType::f64),
                call.number(7),
                call.number(8),
                call.number(9),
                call.number(10),
                call.flag(11),
                call.flag(12),
                decoupled};
            const auto parameters = call.tensors(0);
            const auto gradients = call.tensors(1);
            const auto first = call.tensors(2);
            const auto second = call.tensors(3);
            const auto largest = call.tensors(4);
            const auto steps = call.tensors(5);
            for (std::size_t i = 0; i < parameters.size(); ++i) {
              update(
                  adam,
                  {parameters[i],
                   gradients[i],
                   first[i],
                   second[i],
                   adam.amsgrad ? largest[i] : at::Tensor(),
                   steps[i]});
            }
          }};
}

}  // namespace

Lowerings optimizer_lowerings() {
  return {
      fused_adam("_fused_adam_", false),
      fused_adam("_fused_adam_.tensor_lr", false),
      fused_adam("_fused_adamw_", true),
      fused_adam("_fused_adamw_.tensor_lr", true),
  };
}

}  // namespace accelerate::xla
