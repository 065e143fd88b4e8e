// SPDX-License-Identifier: Apache-2.0
// Loss functions and their gradients.
#include "accelerate/error.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// at::Reduction: none, mean, sum.
constexpr std::int64_t kNone = 0;
constexpr std::int64_t kMean = 1;

Value reduced(const Value& x, std::int64_t reduction) {
  const Dims all = range_of_dims(0, rank_of(x));
  return reduction == kNone   ? x
         : reduction == kMean ? mean(x, all)
                              : sum(x, all);
}

// Computes the gradient of each element's loss from the gradient of the reduced
// loss.
Value spread_gradient(
    const Value& gradient, const Shape& shape, std::int64_t reduction) {
  if (reduction != kMean) {
    return broadcast(gradient, shape);
  }
  return broadcast(
      divide(
          gradient,
          constant_like(static_cast<double>(element_count(shape)), gradient)),
      shape);
}

// ---- negative log likelihood ----

// The classes are dimension 1 of the input, or 0 if it has one dimension.
std::int64_t class_dim(const Value& x) {
  return x->shape.size() == 1 ? 0 : 1;
}

// Whether class c is the target, in the shape of `x`.
Value is_target(const Value& x, const Value& target) {
  const std::int64_t dim = class_dim(x);
  return compare(
      Compare::eq, iota(target->type, x->shape, dim), unsqueeze(target, dim));
}

// The weight of each target, which is 0 for the ignored class. `weight` and
// `ignored` are the positions of these two arguments.
Value target_weights(
    const Call& call,
    const Value& x,
    const Value& target,
    std::size_t weight,
    std::size_t ignored) {
  const std::int64_t dim = class_dim(x);
  Value weights = constant(1, x->type, target->shape);
  if (call.has_tensor(weight)) {
    Shape shape(x->shape.size(), 1);
    shape[static_cast<std::size_t>(dim)] =
        x->shape[static_cast<std::size_t>(dim)];
    const Value of_class = reshape(call.value(weight, x->type), shape);
    weights =
        sum(select(is_target(x, target), of_class, constant_like(0, x)), {dim});
  }
  const Value none = constant_integer(call.integer(ignored), target->type);
  return select(
      compare(Compare::ne, target, none), weights, constant_like(0, x));
}

// nll_loss_forward(self, target, weight, reduction, ignore_index) -> (loss,
// total weight)
void nll_loss(Call& call) {
  const Value x = call.value(0);
  const Value target = call.value(1);
  const std::int64_t dim = class_dim(x);
  const Value weights = target_weights(call, x, target, 2, 4);
  const Value picked =
      sum(select(is_target(x, target), x, constant_like(0, x)), {dim});
  const Value losses = negate(mul(picked, weights));
  const Dims all = range_of_dims(0, rank_of(losses));
  const std::int64_t reduction = call.integer(3);
  if (reduction == kNone) {
    call.result(losses);
    call.result(constant(0, x->type));
    return;
  }
  const Value total = sum(weights, all);
  const Value loss = sum(losses, all);
  call.result(reduction == kMean ? divide(loss, total) : loss);
  call.result(total);
}

// nll_loss_backward(grad, self, target, weight, reduction, ignore_index,
// total_weight)
void nll_loss_gradient(Call& call) {
  const Value x = call.value(1);
  const Value target = call.value(2);
  const Value weights = target_weights(call, x, target, 3, 5);
  Value gradient = call.value(0);
  if (call.integer(4) == kMean) {
    gradient = divide(gradient, call.value(6));
  }
  const Value per_target = negate(mul(weights, gradient));
  call.result(select(
      is_target(x, target),
      unsqueeze(per_target, class_dim(x)),
      constant_like(0, x)));
}

// ---- losses of an input and a target, element by element ----

using ElementLoss =
    std::function<Value(const Call&, const Value& x, const Value& target)>;

Lowering element_loss(
    const char* name, std::size_t reduction, ElementLoss loss) {
  return {
      name, [reduction, loss = std::move(loss)](Call& call) {
        const Value x = call.value(0);
        call.result(reduced(
            loss(call, x, call.value(1, x->type)), call.integer(reduction)));
      }};
}

// A backward function (grad, self, target, …).
Lowering element_gradient(
    const char* name, std::size_t reduction, ElementLoss slope) {
  return {
      name, [reduction, slope = std::move(slope)](Call& call) {
        const Value x = call.value(1);
        const Value slopes = slope(call, x, call.value(2, x->type));
        call.result(mul(
            spread_gradient(
                call.value(0, x->type), slopes->shape, call.integer(reduction)),
            slopes));
      }};
}

Value sign_of(const Value& x) {
  const Value zero = constant_like(0, x);
  return sub(
      convert(compare(Compare::gt, x, zero), x->type),
      convert(compare(Compare::lt, x, zero), x->type));
}

// smooth_l1: quadratic below beta.
Value smooth_l1(const Value& x, const Value& target, double beta) {
  const Value distance = unary(Op::abs, sub(x, target));
  return select(
      compare(Compare::lt, distance, constant_like(beta, x)),
      divide(times(0.5, square(distance)), constant_like(beta, x)),
      sub(distance, constant_like(0.5 * beta, x)));
}

Value smooth_l1_slope(const Value& x, const Value& target, double beta) {
  const Value difference = sub(x, target);
  return select(
      compare(Compare::lt, unary(Op::abs, difference), constant_like(beta, x)),
      divide(difference, constant_like(beta, x)),
      sign_of(difference));
}

Value huber(const Value& x, const Value& target, double delta) {
  const Value distance = unary(Op::abs, sub(x, target));
  return select(
      compare(Compare::lt, distance, constant_like(delta, x)),
      times(0.5, square(distance)),
      times(delta, sub(distance, constant_like(0.5 * delta, x))));
}

Value huber_slope(const Value& x, const Value& target, double delta) {
  const Value difference = sub(x, target);
  return select(
      compare(Compare::lt, unary(Op::abs, difference), constant_like(delta, x)),
      difference,
      times(delta, sign_of(difference)));
}

Value optional_weight(const Call& call, std::size_t i, const Value& x) {
  return call.has_tensor(i) ? mul(x, call.value(i, x->type)) : x;
}

// Logarithms are bounded at -100, as on the CPU.
Value bounded_log(const Value& x) {
  return maximum(log(x), constant_like(-100, x));
}

// binary_cross_entropy(self, target, weight, reduction)
Value cross_entropy(const Call& call, const Value& x, const Value& target) {
  const Value unit = constant_like(1, x);
  const Value loss = negate(
      add(mul(target, bounded_log(x)),
          mul(sub(unit, target), bounded_log(sub(unit, x)))));
  return optional_weight(call, 2, loss);
}

Value cross_entropy_slope(
    const Call& call, const Value& x, const Value& target) {
  const Value unit = constant_like(1, x);
  const Value denominator =
      maximum(mul(sub(unit, x), x), constant_like(1e-12, x));
  return optional_weight(call, 3, divide(sub(x, target), denominator));
}

// binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction)
Value logits_cross_entropy(
    const Call& call, const Value& x, const Value& target) {
  const Value unit = constant_like(1, x);
  const Value softplus =
      add(unary(Op::log_plus_one, exp(negate(unary(Op::abs, x)))),
          maximum(negate(x), constant_like(0, x)));
  const Value rest = mul(sub(unit, target), x);
  if (!call.has_tensor(3)) {
    return optional_weight(call, 2, add(rest, softplus));
  }
  const Value log_weight =
      add(unit, mul(sub(call.value(3, x->type), unit), target));
  return optional_weight(call, 2, add(rest, mul(log_weight, softplus)));
}

}  // namespace

Lowerings loss_lowerings() {
  return {
      {"nll_loss_forward", nll_loss},
      {"nll_loss_backward", nll_loss_gradient},
      {"nll_loss2d_forward", nll_loss},
      {"nll_loss2d_backward", nll_loss_gradient},
      element_loss(
          "mse_loss",
          2,
          [](const Call&, const Value& x, const Value& target) {
            return square(sub(x, target));
          }),
      element_gradient(
          "mse_loss_backward",
          3,
          [](const Call&, const Value& x, const Value& target) {
            return times(2, sub(x, target));
          }),
      element_loss(
          "smooth_l1_loss",
          2,
          [](const Call& call, const Value& x, const Value& target) {
            return smooth_l1(x, target, call.number(3));
          }),
      element_gradient(
          "smooth_l1_loss_backward",
          3,
          [](const Call& call, const Value& x, const Value& target) {
            return smooth_l1_slope(x, target, call.number(4));
          }),
      element_loss(
          "huber_loss",
          2,
          [](const Call& call, const Value& x, const Value& target) {
            return huber(x, target, call.number(3));
          }),
      element_gradient(
          "huber_loss_backward",
          3,
          [](const Call& call, const Value& x, const Value& target) {
            return huber_slope(x, target, call.number(4));
          }),
      element_loss("binary_cross_entropy", 3, cross_entropy),
      element_gradient("binary_cross_entropy_backward", 4, cross_entropy_slope),
      element_loss("binary_cross_entropy_with_logits", 4, logits_cross_entropy),
  };
}

}  // namespace accelerate::xla
