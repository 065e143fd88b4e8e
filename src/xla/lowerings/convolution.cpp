// SPDX-License-Identifier: Apache-2.0
// Convolutions in one to three dimensions, transposed or not, with groups.
#include "accelerate/error.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// The arguments that describe a convolution. Lists may have one number for all
// dimensions.
struct Geometry {
  Dims stride;
  Dims padding;
  Dims dilation;
  bool transposed = false;
  Dims output_padding;
  std::int64_t groups = 1;
};

Dims per_dimension(Dims list, std::size_t count) {
  return list.size() == 1 ? Dims(count, list[0]) : list;
}

// `first` is the position of the strides in the schema.
Geometry geometry_of(const Call& call, std::size_t first, std::size_t spatial) {
  return {
      per_dimension(call.integers(first), spatial),
      per_dimension(call.integers(first + 1), spatial),
      per_dimension(call.integers(first + 2), spatial),
      call.flag(first + 3),
      per_dimension(call.integers(first + 4), spatial),
      call.integer(first + 5)};
}

Dims ones(const Dims& like) {
  return Dims(like.size(), 1);
}

// Swaps the grouped channels of a weight: [g·o, i, …] <-> [g·i, o, …].
Value swapped_channels(const Value& weight, std::int64_t groups) {
  if (groups == 1) {
    Dims order = range_of_dims(0, rank_of(weight));
    std::swap(order[0], order[1]);
    return transpose(weight, order);
  }
  Shape grouped = weight->shape;
  grouped[0] /= groups;
  grouped.insert(grouped.begin(), groups);
  Dims order = range_of_dims(0, static_cast<std::int64_t>(grouped.size()));
  std::swap(order[1], order[2]);
  Shape result = weight->shape;
  result[0] = groups * weight->shape[1];
  result[1] = weight->shape[0] / groups;
  return reshape(transpose(reshape(weight, grouped), order), result);
}

Value forward(const Value& x, const Value& weight, const Geometry& g) {
  return convolution(
      x,
      weight,
      {.layout = ConvolutionLayout::forward,
       .strides = g.stride,
       .low = g.padding,
       .high = g.padding,
       .a_dilation = ones(g.stride),
       .b_dilation = g.dilation,
       .feature_groups = g.groups});
}

// The transpose of `forward`: maps a value with the shape of its output to the
// shape of its input, whose spatial sizes are `sizes`.
Value transposed(
    const Value& y, const Value& weight, const Geometry& g, const Dims& sizes) {
  Convolution options{
      .layout = ConvolutionLayout::forward,
      .strides = ones(g.stride),
      .a_dilation = g.stride,
      .b_dilation = g.dilation,
      .reverse_window = true,
      .feature_groups = g.groups};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t reach = g.dilation[i] * (weight->shape[i + 2] - 1);
    const std::int64_t low = reach - g.padding[i];
    const std::int64_t covered = (y->shape[i + 2] - 1) * g.stride[i] + 1;
    options.low.push_back(low);
    options.high.push_back(sizes[i] + reach - low - covered);
  }
  return convolution(y, swapped_channels(weight, g.groups), options);
}

// The gradient of the weight of `forward`.
Value weight_gradient(
    const Value& x,
    const Value& gradient,
    const Geometry& g,
    const Shape& weight) {
  Convolution options{
      .layout = ConvolutionLayout::weight_gradient,
      .strides = g.dilation,
      .low = g.padding,
      .a_dilation = ones(g.stride),
      .b_dilation = g.stride,
      .batch_groups = g.groups};
  for (std::size_t i = 0; i < g.stride.size(); ++i) {
    const std::int64_t reach = (weight[i + 2] - 1) * g.dilation[i] + 1;
    const std::int64_t covered = (gradient->shape[i + 2] - 1) * g.stride[i];
    options.high.push_back(reach + covered - x->shape[i + 2] - g.padding[i]);
  }
  return convolution(x, gradient, options);
}

Dims spatial_sizes(const Value& x) {
  return {x->shape.begin() + 2, x->shape.end()};
}

// The sizes of a transposed convolution's output.
Dims transposed_sizes(const Value& x, const Value& weight, const Geometry& g) {
  Dims sizes;
  for (std::size_t i = 0; i < g.stride.size(); ++i) {
    sizes.push_back(
        (x->shape[i + 2] - 1) * g.stride[i] - 2 * g.padding[i] +
        g.dilation[i] * (weight->shape[i + 2] - 1) + g.output_padding[i] + 1);
  }
  return sizes;
}

// convolution(input, weight, bias, stride, padding, dilation, transposed,
// output_padding, groups)
void convolve(Call& call) {
  const Value x = call.value(0);
  const Value weight = call.value(1, x->type);
  const Geometry g = geometry_of(call, 3, x->shape.size() - 2);
  Value y = g.transposed
                ? transposed(x, weight, g, transposed_sizes(x, weight, g))
                : forward(x, weight, g);
  if (call.has_tensor(2)) {
    Shape channels(x->shape.size(), 1);
    channels[1] = y->shape[1];
    y = add(y, reshape(call.value(2, x->type), channels));
  }
  call.result(y);
}

// convolution_backward(grad, input, weight, bias_sizes, stride, padding,
// dilation, transposed, output_padding, groups, output_mask)
void convolve_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Value x = call.value(1);
  const Value weight = call.value(2);
  const Geometry g = geometry_of(call, 4, x->shape.size() - 2);
  const auto wanted = call.argument(10).toBoolList();
  Dims all_but_channels = range_of_dims(2, rank_of(gradient));
  all_but_channels.insert(all_but_channels.begin(), 0);
  Value x_gradient;
  Value w_gradient;
  if (wanted[0]) {
    x_gradient = g.transposed
                     ? forward(gradient, weight, g)
                     : transposed(gradient, weight, g, spatial_sizes(x));
  }
  if (wanted[1]) {
    // In a transposed convolution, the input and the output change places.
    w_gradient = g.transposed ? weight_gradient(gradient, x, g, weight->shape)
                              : weight_gradient(x, gradient, g, weight->shape);
  }
  call.result(x_gradient);
  call.result(w_gradient);
  call.result(wanted[2] ? sum(gradient, all_but_channels) : nullptr);
}

}  // namespace

Lowerings convolution_lowerings() {
  return {
      {"convolution_overrideable", convolve},
      {"convolution", convolve},
      {"convolution_backward", convolve_gradient},
  };
}

}  // namespace accelerate::xla
