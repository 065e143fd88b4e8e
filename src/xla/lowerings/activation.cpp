// SPDX-License-Identifier: Apache-2.0
// Activation functions and their gradients.
#include <cmath>
#include <numbers>

#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

Value one_minus(const Value& x) {
  return sub(constant_like(1, x), x);
}
Value one_plus(const Value& x) {
  return add(constant_like(1, x), x);
}
Value sigmoid(const Value& x) {
  return unary(Op::logistic, x);
}
Value tanh(const Value& x) {
  return unary(Op::tanh, x);
}
Value is_positive(const Value& x) {
  return compare(Compare::gt, x, constant_like(0, x));
}

// gelu's polynomial form: x/2 (1 + tanh(k (x + c x³))).
constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kGeluCubic = 0.044715;

Value gelu(const Value& x, bool tanh_form) {
  const Value inner =
      tanh_form ? tanh(times(
                      kGeluScale, add(x, times(kGeluCubic, mul(x, square(x))))))
                : unary(Op::erf, times(std::numbers::sqrt2 / 2, x));
  return mul(times(0.5, x), one_plus(inner));
}

Value gelu_slope(const Value& x, bool tanh_form) {
  if (!tanh_form) {
    const Value cdf =
        times(0.5, one_plus(unary(Op::erf, times(std::numbers::sqrt2 / 2, x))));
    const Value pdf = times(
        std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2,
        exp(times(-0.5, square(x))));
    return add(cdf, mul(x, pdf));
  }
  const Value inner =
      tanh(times(kGeluScale, add(x, times(kGeluCubic, mul(x, square(x))))));
  const Value inner_slope =
      times(kGeluScale, one_plus(times(3 * kGeluCubic, square(x))));
  const Value outer = times(0.5, one_plus(inner));
  return add(
      outer, mul(mul(times(0.5, x), one_minus(square(inner))), inner_slope));
}

Value silu_slope(const Value& x) {
  const Value s = sigmoid(x);
  return mul(s, one_plus(mul(x, one_minus(s))));
}

// f16 and bf16 are computed in f32, as on the CPU.
template <typename Function>
Value computed_wide(const Value& x, const Function& function) {
  return convert(function(convert(x, accumulation_type(x->type))), x->type);
}

using Slope = std::function<Value(const Call&, const Value&)>;

Lowering forward(const char* name, Slope make) {
  return {name, [make = std::move(make)](Call& call) {
            call.result(computed_wide(
                call.value(0), [&](const Value& x) { return make(call, x); }));
          }};
}

// A gradient: argument 0 times the slope at argument 1.
Lowering backward(const char* name, Slope slope) {
  return {
      name, [slope = std::move(slope)](Call& call) {
        const Value x = call.value(1);
        const ElementType wide = accumulation_type(x->type);
        call.result(convert(
            mul(call.value(0, wide), slope(call, convert(x, wide))), x->type));
      }};
}

bool is_tanh_form(const Call& call, std::size_t i) {
  return call.text(i) == "tanh";
}

Value softplus(const Value& x, double beta, double threshold) {
  const Value scaled = times(beta, x);
  const Value smooth =
      divide(unary(Op::log_plus_one, exp(scaled)), constant_like(beta, x));
  return select(
      compare(Compare::gt, scaled, constant_like(threshold, x)), x, smooth);
}

Value softplus_slope(const Value& x, double beta, double threshold) {
  const Value scaled = times(beta, x);
  return select(
      compare(Compare::gt, scaled, constant_like(threshold, x)),
      constant_like(1, x),
      sigmoid(scaled));
}

// elu(self, alpha, scale, input_scale)
Value elu(const Value& x, double alpha, double scale, double input_scale) {
  const Value negative = times(
      alpha * scale, unary(Op::exponential_minus_one, times(input_scale, x)));
  return select(is_positive(x), times(scale, x), negative);
}

// elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result)
void elu_gradient(Call& call) {
  const Value x = call.value(5);
  const double alpha = call.number(1);
  const double scale = call.number(2);
  const double input_scale = call.number(3);
  const Value negative =
      call.flag(4)
          ? times(input_scale, add(x, constant_like(alpha * scale, x)))
          : times(alpha * scale * input_scale, exp(times(input_scale, x)));
  call.result(
      mul(call.value(0),
          select(is_positive(x), constant_like(scale, x), negative)));
}

Value hard_sigmoid(const Value& x) {
  const Value shifted = add(x, constant_like(3, x));
  const Value bounded =
      minimum(maximum(shifted, constant_like(0, x)), constant_like(6, x));
  return divide(bounded, constant_like(6, x));
}

Value inside(const Value& x, double low, double high) {
  return convert(
      binary(
          Op::logical_and,
          compare(Compare::gt, x, constant_like(low, x)),
          compare(Compare::lt, x, constant_like(high, x))),
      x->type);
}

Value hard_swish_slope(const Value& x) {
  const Value middle =
      add(divide(x, constant_like(3, x)), constant_like(0.5, x));
  const Value lower = select(
      compare(Compare::le, x, constant_like(-3, x)),
      constant_like(0, x),
      middle);
  return select(
      compare(Compare::ge, x, constant_like(3, x)), constant_like(1, x), lower);
}

Value log_sigmoid(const Value& x) {
  const Value least = minimum(x, constant_like(0, x));
  return sub(least, unary(Op::log_plus_one, exp(negate(unary(Op::abs, x)))));
}

// log_sigmoid_forward also returns a buffer that only the CPU's backward uses.
void log_sigmoid_with_buffer(Call& call) {
  const Value x = call.value(0);
  call.result(log_sigmoid(x));
  call.result(constant(0, x->type, {0}));
}

// prelu: `_prelu_kernel(self, weight)` gets a weight that can be broadcast.
void prelu(Call& call) {
  const Value x = call.value(0);
  call.result(select(is_positive(x), x, mul(call.value(1), x)));
}

void prelu_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Value x = call.value(1);
  const Value zero = constant_like(0, x);
  call.result(select(is_positive(x), gradient, mul(call.value(2), gradient)));
  call.result(select(is_positive(x), zero, mul(x, gradient)));
}

// glu(self, dim): the first half times the sigmoid of the second.
std::pair<Value, Value> halves(const Value& x, std::int64_t dim) {
  const auto i = static_cast<std::size_t>(dim);
  const Dims zero(x->shape.size(), 0);
  Dims middle_from = zero;
  Dims middle_to = x->shape;
  middle_from[i] = middle_to[i] = x->shape[i] / 2;
  return {slice(x, zero, middle_to), slice(x, middle_from, x->shape)};
}

void glu(Call& call) {
  const Value x = call.value(0);
  const auto [a, b] = halves(x, call.dim(1, x->shape.size()));
  call.result(mul(a, sigmoid(b)));
}

void glu_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Value x = call.value(1);
  const std::int64_t dim = call.dim(2, x->shape.size());
  const auto [a, b] = halves(x, dim);
  const Value s = sigmoid(b);
  call.result(concatenate(
      {mul(gradient, s), mul(mul(gradient, a), mul(s, one_minus(s)))}, dim));
}

}  // namespace

Lowerings activation_lowerings() {
  return {
      forward(
          "relu",
          [](const Call&, const Value& x) {
            return maximum(x, constant_like(0, x));
          }),
      forward(
          "gelu",
          [](const Call& call, const Value& x) {
            return gelu(x, is_tanh_form(call, 1));
          }),
      forward(
          "silu",
          [](const Call&, const Value& x) { return mul(x, sigmoid(x)); }),
      forward(
          "softplus",
          [](const Call& call, const Value& x) {
            return softplus(x, call.number(1), call.number(2));
          }),
      forward(
          "mish",
          [](const Call&, const Value& x) {
            return mul(x, tanh(softplus(x, 1, 20)));
          }),
      forward(
          "elu",
          [](const Call& call, const Value& x) {
            return elu(x, call.number(1), call.number(2), call.number(3));
          }),
      forward(
          "leaky_relu",
          [](const Call& call, const Value& x) {
            return select(is_positive(x), x, times(call.number(1), x));
          }),
      forward(
          "hardtanh",
          [](const Call& call, const Value& x) {
            return minimum(
                maximum(x, constant_like(call.number(1), x)),
                constant_like(call.number(2), x));
          }),
      forward(
          "hardsigmoid",
          [](const Call&, const Value& x) { return hard_sigmoid(x); }),
      forward(
          "hardswish",
          [](const Call&, const Value& x) { return mul(x, hard_sigmoid(x)); }),
      forward(
          "threshold",
          [](const Call& call, const Value& x) {
            return select(
                compare(Compare::gt, x, constant_like(call.number(1), x)),
                x,
                constant_like(call.number(2), x));
          }),
      {"log_sigmoid_forward", log_sigmoid_with_buffer},
      {"elu_backward", elu_gradient},
      {"_prelu_kernel", prelu},
      {"_prelu_kernel_backward", prelu_gradient},
      {"glu", glu},
      {"glu_backward", glu_gradient},
      backward(
          "threshold_backward",
          [](const Call& call, const Value& x) {
            return convert(
                compare(Compare::gt, x, constant_like(call.number(2), x)),
                x->type);
          }),
      backward(
          "tanh_backward",
          [](const Call&, const Value& y) { return one_minus(square(y)); }),
      backward(
          "sigmoid_backward",
          [](const Call&, const Value& y) { return mul(y, one_minus(y)); }),
      backward(
          "gelu_backward",
          [](const Call& call, const Value& x) {
            return gelu_slope(x, is_tanh_form(call, 2));
          }),
      backward(
          "silu_backward",
          [](const Call&, const Value& x) { return silu_slope(x); }),
      backward(
          "softplus_backward",
          [](const Call& call, const Value& x) {
            return softplus_slope(x, call.number(2), call.number(3));
          }),
      backward(
          "mish_backward",
          [](const Call&, const Value& x) {
            const Value t = tanh(softplus(x, 1, 20));
            return add(t, mul(mul(x, one_minus(square(t))), sigmoid(x)));
          }),
      backward(
          "leaky_relu_backward",
          [](const Call& call, const Value& x) {
            return select(
                is_positive(x),
                constant_like(1, x),
                constant_like(call.number(2), x));
          }),
      backward(
          "hardtanh_backward",
          [](const Call& call, const Value& x) {
            return inside(x, call.number(2), call.number(3));
          }),
      backward(
          "hardsigmoid_backward",
          [](const Call&, const Value& x) {
            // As on the CPU, 1/6 is rounded to f32, even for f64 tensors.
            return times(1.0F / 6.0F, inside(x, -3, 3));
          }),
      backward(
          "hardswish_backward",
          [](const Call&, const Value& x) { return hard_swish_slope(x); }),
      backward(
          "log_sigmoid_backward",
          [](const Call&, const Value& x) { return sigmoid(negate(x)); }),
  };
}

}  // namespace accelerate::xla
