// SPDX-License-Identifier: Apache-2.0
// Softmax and normalization layers, with their gradients.
#include "accelerate/error.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// ---- softmax ----

// _softmax(self, dim, half_to_float)
ElementType softmax_type(const Call& call) {
  return call.flag(2) ? ElementType::f32 : call.type(0);
}

Dims softmax_dims(const Call& call, std::size_t i, const Value& x) {
  return x->shape.empty() ? Dims() : Dims{call.dim(i, x->shape.size())};
}

void softmax(Call& call) {
  const Value x = call.value(0, accumulation_type(call.type(0)));
  const Dims dims = softmax_dims(call, 1, x);
  const Value powers = exp(sub(x, reduce(Op::maximum, x, dims, true)));
  call.result(
      convert(divide(powers, sum(powers, dims, true)), softmax_type(call)));
}

void log_softmax(Call& call) {
  const Value x = call.value(0, accumulation_type(call.type(0)));
  const Dims dims = softmax_dims(call, 1, x);
  const Value shifted = sub(x, reduce(Op::maximum, x, dims, true));
  call.result(convert(
      sub(shifted, log(sum(exp(shifted), dims, true))), softmax_type(call)));
}

// _softmax_backward_data(grad, output, dim, input_dtype)
void softmax_gradient(Call& call) {
  const ElementType wide = accumulation_type(call.type(1));
  const Value gradient = call.value(0, wide);
  const Value output = call.value(1, wide);
  const Value product = mul(gradient, output);
  const Value total = sum(product, softmax_dims(call, 2, output), true);
  call.result(convert(
      sub(product, mul(output, total)), call.dtype_or(3, call.type(1))));
}

void log_softmax_gradient(Call& call) {
  const ElementType wide = accumulation_type(call.type(1));
  const Value gradient = call.value(0, wide);
  const Value output = call.value(1, wide);
  const Value total = sum(gradient, softmax_dims(call, 2, output), true);
  call.result(convert(
      sub(gradient, mul(exp(output), total)), call.dtype_or(3, call.type(1))));
}

// ---- normalization over given dimensions ----

struct Normalized {
  Value output;
  Value mean;
  Value inverse;  ///< 1 / sqrt(variance + eps)
};

Value inverse_root(const Value& variance, double epsilon) {
  return unary(Op::rsqrt, add(variance, constant_like(epsilon, variance)));
}

Normalized normalized(const Value& x, const Dims& dims, double epsilon) {
  const Value center = mean(x, dims, true);
  const Value centered = sub(x, center);
  const Value inverse =
      inverse_root(mean(square(centered), dims, true), epsilon);
  return {mul(centered, inverse), center, inverse};
}

// The gradient of the input; `gradient` is already multiplied by the weight.
Value normalized_gradient(
    const Value& gradient,
    const Value& output,
    const Value& inverse,
    const Dims& dims) {
  const Value direct = mean(gradient, dims, true);
  const Value along = mean(mul(gradient, output), dims, true);
  return mul(inverse, sub(sub(gradient, direct), mul(output, along)));
}

Value optional_product(
    const Call& call, std::size_t i, const Value& x, const Shape& shape) {
  return call.has_tensor(i) ? mul(x, reshape(call.value(i, x->type), shape))
                            : x;
}

Value optional_sum(
    const Call& call, std::size_t i, const Value& x, const Shape& shape) {
  return call.has_tensor(i) ? add(x, reshape(call.value(i, x->type), shape))
                            : x;
}

Value converted_if(bool wanted, const Value& value, ElementType type) {
  return wanted ? convert(value, type) : nullptr;
}

// ---- layer norm ----

// native_layer_norm(input, normalized_shape, weight, bias, eps)
void layer_norm(Call& call) {
  const ElementType type = call.type(0);
  const Value x = call.value(0, accumulation_type(type));
  const Shape inner = call.integers(1);
  const Dims dims = range_of_dims(
      rank_of(x) - static_cast<std::int64_t>(inner.size()), rank_of(x));
  const Normalized result = normalized(x, dims, call.number(4));
  const Value weighted = optional_product(call, 2, result.output, inner);
  call.result(convert(optional_sum(call, 3, weighted, inner), type));
  call.result(result.mean);
  call.result(result.inverse);
}

// native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight,
// bias, output_mask)
void layer_norm_gradient(Call& call) {
  const ElementType type = call.type(1);
  const ElementType wide = accumulation_type(type);
  const Value x = call.value(1, wide);
  const Shape inner = call.integers(2);
  const std::int64_t outer =
      rank_of(x) - static_cast<std::int64_t>(inner.size());
  const Dims dims = range_of_dims(outer, rank_of(x));
  const Dims outer_dims = range_of_dims(0, outer);
  const Value gradient = call.value(0, wide);
  const Value inverse = call.value(4, wide);
  const Value output = mul(sub(x, call.value(3, wide)), inverse);
  const auto wanted = call.argument(7).toBoolList();
  const Value weighted = optional_product(call, 5, gradient, inner);
  call.result(converted_if(
      wanted[0], normalized_gradient(weighted, output, inverse, dims), type));
  call.result(
      converted_if(wanted[1], sum(mul(gradient, output), outer_dims), type));
  call.result(converted_if(wanted[2], sum(gradient, outer_dims), type));
}

// ---- RMS norm ----

// _fused_rms_norm(input, normalized_shape, weight, eps)
void rms_norm(Call& call) {
  const ElementType type = call.type(0);
  const Value x = call.value(0, accumulation_type(type));
  const Shape inner = call.integers(1);
  const Dims dims = range_of_dims(
      rank_of(x) - static_cast<std::int64_t>(inner.size()), rank_of(x));
  const double epsilon = call.is_none(3)
                             ? (type == ElementType::f64 ? 0x1p-52 : 0x1p-23)
                             : call.number(3);
  const Value inverse = inverse_root(mean(square(x), dims, true), epsilon);
  call.result(convert(optional_product(call, 2, mul(x, inverse), inner), type));
  call.result(inverse);
}

// _fused_rms_norm_backward(grad, input, normalized_shape, rstd, weight, mask)
void rms_norm_gradient(Call& call) {
  const ElementType type = call.type(1);
  const ElementType wide = accumulation_type(type);
  const Value x = call.value(1, wide);
  const Shape inner = call.integers(2);
  const std::int64_t outer =
      rank_of(x) - static_cast<std::int64_t>(inner.size());
  const Dims dims = range_of_dims(outer, rank_of(x));
  const Value gradient = call.value(0, wide);
  const Value inverse = call.value(3, wide);
  const Value output = mul(x, inverse);
  const Value weighted = optional_product(call, 4, gradient, inner);
  const Value along = mean(mul(weighted, output), dims, true);
  const auto wanted = call.argument(5).toBoolList();
  call.result(converted_if(
      wanted[0], mul(inverse, sub(weighted, mul(output, along))), type));
  call.result(converted_if(
      wanted[1], sum(mul(gradient, output), range_of_dims(0, outer)), type));
}

// ---- batch norm ----

// All dimensions but the channels, dimension 1.
Dims batch_dims(const Value& x) {
  Dims dims{0};
  for (std::int64_t dim = 2; dim < rank_of(x); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

Shape channel_shape(const Value& x) {
  Shape shape(x->shape.size(), 1);
  shape[1] = x->shape[1];
  return shape;
}

// running = (1 - momentum) * running + momentum * now
void update_running(
    const Call& call, std::size_t i, const Value& now, double momentum) {
  const at::Tensor& running = call.tensor(i);
  const Value old = convert(read(running), now->type);
  write(running, add(times(1 - momentum, old), times(momentum, now)));
}

// native_batch_norm(input, weight, bias, running_mean, running_var, training,
// momentum, eps): also writes the running statistics.
void batch_norm(Call& call) {
  const ElementType type = call.type(0);
  const Value x = call.value(0, accumulation_type(type));
  const Dims dims = batch_dims(x);
  const Shape channels = channel_shape(x);
  const Shape flat{x->shape[1]};
  const double epsilon = call.number(7);
  Value output;
  Value saved_mean = constant(0, x->type, {0});
  Value saved_inverse = saved_mean;
  if (call.flag(5)) {
    const Normalized result = normalized(x, dims, epsilon);
    output = result.output;
    saved_mean = reshape(result.mean, flat);
    saved_inverse = reshape(result.inverse, flat);
    const auto count = static_cast<double>(count_of(x, dims));
    if (call.has_tensor(3)) {
      update_running(call, 3, saved_mean, call.number(6));
    }
    if (call.has_tensor(4)) {
      const Value variance =
          reshape(mean(square(sub(x, result.mean)), dims, true), flat);
      update_running(
          call, 4, times(count / (count - 1), variance), call.number(6));
    }
  } else {
    const Value center = reshape(call.value(3, x->type), channels);
    const Value variance = reshape(call.value(4, x->type), channels);
    output = mul(sub(x, center), inverse_root(variance, epsilon));
  }
  const Value weighted = optional_product(call, 1, output, channels);
  call.result(convert(optional_sum(call, 2, weighted, channels), type));
  call.result(saved_mean);
  call.result(saved_inverse);
}

// native_batch_norm_backward(grad, input, weight, running_mean, running_var,
// save_mean, save_invstd, train, eps, output_mask)
void batch_norm_gradient(Call& call) {
  const ElementType type = call.type(1);
  const ElementType wide = accumulation_type(type);
  const Value gradient = call.value(0, wide);
  const Value x = call.value(1, wide);
  const Dims dims = batch_dims(x);
  const Shape channels = channel_shape(x);
  const bool training = call.flag(7);
  const Value center = reshape(call.value(training ? 5 : 3, wide), channels);
  const Value inverse =
      training ? reshape(call.value(6, wide), channels)
               : inverse_root(
                     reshape(call.value(4, wide), channels), call.number(8));
  const Value output = mul(sub(x, center), inverse);
  const auto wanted = call.argument(9).toBoolList();
  const Value weighted = optional_product(call, 2, gradient, channels);
  const Value input_gradient =
      training ? normalized_gradient(weighted, output, inverse, dims)
               : mul(weighted, inverse);
  call.result(converted_if(wanted[0], input_gradient, type));
  call.result(converted_if(wanted[1], sum(mul(gradient, output), dims), wide));
  call.result(converted_if(wanted[2], sum(gradient, dims), wide));
}

// ---- group norm ----

// native_group_norm(input, weight, bias, N, C, HxW, group, eps): statistics per
// sample and group.
void group_norm(Call& call) {
  const ElementType type = call.type(0);
  const Value x = call.value(0, accumulation_type(type));
  const std::int64_t samples = call.integer(3);
  const std::int64_t groups = call.integer(6);
  const Shape grouped{
      samples, groups, element_count(x->shape) / samples / groups};
  const Normalized result =
      normalized(reshape(x, grouped), {2}, call.number(7));
  const Shape channels = channel_shape(x);
  const Value weighted =
      optional_product(call, 1, reshape(result.output, x->shape), channels);
  call.result(convert(optional_sum(call, 2, weighted, channels), type));
  call.result(reshape(result.mean, {samples, groups}));
  call.result(reshape(result.inverse, {samples, groups}));
}

// native_group_norm_backward(grad, input, mean, rstd, weight, N, C, HxW, group,
// output_mask)
void group_norm_gradient(Call& call) {
  const ElementType type = call.type(1);
  const ElementType wide = accumulation_type(type);
  const Value gradient = call.value(0, wide);
  const Value x = call.value(1, wide);
  const std::int64_t samples = call.integer(5);
  const std::int64_t groups = call.integer(8);
  const Shape grouped{
      samples, groups, element_count(x->shape) / samples / groups};
  const Shape statistics{samples, groups, 1};
  const Value inverse = reshape(call.value(3, wide), statistics);
  const Value output =
      mul(sub(reshape(x, grouped), reshape(call.value(2, wide), statistics)),
          inverse);
  const auto wanted = call.argument(9).toBoolList();
  const Value weighted = optional_product(call, 4, gradient, channel_shape(x));
  const Dims dims = batch_dims(x);
  call.result(converted_if(
      wanted[0],
      reshape(
          normalized_gradient(reshape(weighted, grouped), output, inverse, {2}),
          x->shape),
      type));
  call.result(converted_if(
      wanted[1], sum(mul(gradient, reshape(output, x->shape)), dims), type));
  call.result(converted_if(wanted[2], sum(gradient, dims), type));
}

}  // namespace

Lowerings normalization_lowerings() {
  return {
      {"_softmax", softmax},
      {"_log_softmax", log_softmax},
      {"_softmax_backward_data", softmax_gradient},
      {"_log_softmax_backward_data", log_softmax_gradient},
      {"native_layer_norm", layer_norm},
      {"native_layer_norm_backward", layer_norm_gradient},
      {"_fused_rms_norm", rms_norm},
      {"_fused_rms_norm_backward", rms_norm_gradient},
      {"native_batch_norm", batch_norm},
      {"native_batch_norm_backward", batch_norm_gradient},
      {"native_group_norm", group_norm},
      {"native_group_norm_backward", group_norm_gradient},
  };
}

}  // namespace accelerate::xla
