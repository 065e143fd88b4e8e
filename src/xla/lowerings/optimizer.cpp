// SPDX-License-Identifier: Apache-2.0
// Optimizer steps that arrive as one operator over all parameters.
#include <cmath>

#include "accelerate/error.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// Skips a step if a gradient was not finite. The flag for this is in device
// memory, so that the program stays the same.
class Skip {
 public:
  /// `i` is the argument `found_inf`; `grad_scale` comes before it.
  Skip(const Call& call, std::size_t i) {
    if (call.has_tensor(i - 1)) {
      scale_ = call.value(i - 1);
    }
    if (call.has_tensor(i)) {
      flag_ = convert(reshape(call.value(i), {}), ElementType::pred);
    }
  }

  Value unscaled(const Value& gradient) const {
    return scale_ == nullptr
               ? gradient
               : divide(gradient, convert(reshape(scale_, {}), gradient->type));
  }
  void write_unless_skipped(
      const at::Tensor& tensor, const Value& value) const {
    if (flag_ == nullptr) {
      write(tensor, value);
      return;
    }
    write(tensor, select(flag_, convert(read(tensor), value->type), value));
  }

 private:
  Value scale_;
  Value flag_;
};

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

void update(const Adam& adam, const AdamTensors& tensors, const Skip& skip) {
  const ElementType type = element_type_of(tensors.parameter.scalar_type());
  const ElementType wide = accumulation_type(type);
  Value parameter = convert(read(tensors.parameter), wide);
  Value gradient = skip.unscaled(convert(read(tensors.gradient), wide));
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
  skip.write_unless_skipped(tensors.first, first);
  skip.write_unless_skipped(tensors.second, second);
  const Value step = step_of(tensors.step, wide);
  Value spread = second;
  if (adam.amsgrad) {
    spread = maximum(convert(read(tensors.largest), wide), second);
    skip.write_unless_skipped(tensors.largest, spread);
  }
  const Value root = sqrt(bias_correction(adam.beta2, step));
  const Value denominator =
      add(divide(sqrt(spread), root), constant_like(adam.epsilon, spread));
  const Value size = divide(lr, bias_correction(adam.beta1, step));
  skip.write_unless_skipped(
      tensors.parameter, sub(parameter, mul(size, divide(first, denominator))));
}

Lowering fused_adam(const char* name, bool decoupled) {
  return {name, [decoupled](Call& call) {
            const Skip skip(call, 14);
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
                   steps[i]},
                  skip);
            }
          }};
}

// _fused_sgd_(self, grads, momentum_buffer_list, weight_decay, momentum, lr,
// dampening, nesterov, maximize, is_first_step, grad_scale, found_inf)
void fused_sgd(Call& call) {
  const Skip skip(call, 11);
  const double decay = call.number(3);
  const double momentum = call.number(4);
  const auto parameters = call.tensors(0);
  const auto gradients = call.tensors(1);
  const auto buffers = call.tensors(2);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ElementType wide =
        accumulation_type(element_type_of(parameters[i].scalar_type()));
    const Value parameter = convert(read(parameters[i]), wide);
    Value step = skip.unscaled(convert(read(gradients[i]), wide));
    step = call.flag(8) ? negate(step) : step;
    step = decay != 0 ? add(step, times(decay, parameter)) : step;
    if (momentum != 0) {
      const Value buffer =
          call.flag(9) ? step
                       : add(times(momentum, convert(read(buffers[i]), wide)),
                             times(1 - call.number(6), step));
      skip.write_unless_skipped(buffers[i], buffer);
      step = call.flag(7) ? add(step, times(momentum, buffer)) : buffer;
    }
    skip.write_unless_skipped(
        parameters[i], sub(parameter, mul(call.value(5, wide), step)));
  }
}

}  // namespace

Lowerings optimizer_lowerings() {
  return {
      {"_fused_sgd_", fused_sgd},
      {"_fused_sgd_.tensor_lr", fused_sgd},
      fused_adam("_fused_adam_", false),
      fused_adam("_fused_adam_.tensor_lr", false),
      fused_adam("_fused_adamw_", true),
      fused_adam("_fused_adamw_.tensor_lr", true),
  };
}

}  // namespace accelerate::xla
