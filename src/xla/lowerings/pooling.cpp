// SPDX-License-Identifier: Apache-2.0
// Pooling over the last two dimensions. One-dimensional pooling arrives here
// too, with a dimension of size 1.
#include <algorithm>

#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

struct Pool {
  Dims size;
  Dims stride;
  Dims padding;
  Dims dilation;
  Dims output;  ///< The spatial sizes of the result.
};

Dims pair_of(const Dims& list, const Dims& otherwise) {
  if (list.empty()) {
    return otherwise;
  }
  return list.size() == 1 ? Dims{list[0], list[0]} : list;
}

std::int64_t spatial_size(const Value& x, std::size_t i) {
  return x->shape[x->shape.size() - 2 + i];
}

// With `ceil`, a window may begin in the input and end beyond its padding.
std::int64_t output_size(
    const Pool& pool, std::size_t i, std::int64_t input, bool ceil) {
  const std::int64_t reach = pool.dilation[i] * (pool.size[i] - 1) + 1;
  const std::int64_t room = input + 2 * pool.padding[i] - reach;
  const std::int64_t steps =
      (room + (ceil ? pool.stride[i] - 1 : 0)) / pool.stride[i];
  const bool begins_outside =
      ceil && steps * pool.stride[i] >= input + pool.padding[i];
  return begins_outside ? steps : steps + 1;
}

Pool make_pool(
    const Value& x,
    const Dims& size,
    const Dims& stride,
    const Dims& padding,
    const Dims& dilation,
    bool ceil) {
  Pool pool{
      pair_of(size, {1, 1}),
      {},
      pair_of(padding, {0, 0}),
      pair_of(dilation, {1, 1}),
      {}};
  pool.stride = pair_of(stride, pool.size);
  for (std::size_t i = 0; i < 2; ++i) {
    pool.output.push_back(output_size(pool, i, spatial_size(x, i), ceil));
  }
  return pool;
}

// Elements after the input that the last window needs.
std::int64_t padding_after(const Pool& pool, const Value& x, std::size_t i) {
  const std::int64_t last = (pool.output[i] - 1) * pool.stride[i] +
                            pool.dilation[i] * (pool.size[i] - 1) + 1;
  return last - spatial_size(x, i) - pool.padding[i];
}

// `list` for the last two of `rank` dimensions, `other` for the rest.
Dims for_spatial(std::size_t rank, const Dims& list, std::int64_t other) {
  Dims result(rank - 2, other);
  result.insert(result.end(), list.begin(), list.end());
  return result;
}

// ---- max ----

// The window's elements at one offset, for all windows.
Value at_offset(const Value& padded, const Pool& pool, const Dims& offset) {
  const std::size_t rank = padded->shape.size();
  Dims from(rank, 0);
  Dims to = padded->shape;
  Dims steps(rank, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t dim = rank - 2 + i;
    from[dim] = offset[i] * pool.dilation[i];
    to[dim] = from[dim] + (pool.output[i] - 1) * pool.stride[i] + 1;
    steps[dim] = pool.stride[i];
  }
  return slice(padded, from, to, steps);
}

// The position in the input's last two dimensions, for all windows:
// `coordinate` returns the index in one of them, given where each window
// begins.
template <typename F>
Value positions(
    const Value& x, const Pool& pool, const Shape& shape, F coordinate) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  Value position = constant(0, ElementType::i64, shape);
  for (std::size_t i = 0; i < 2; ++i) {
    const Value index =
        iota(ElementType::i64, shape, rank - 2 + static_cast<std::int64_t>(i));
    const Value begin =
        sub(mul(index, constant_integer(pool.stride[i], ElementType::i64)),
            constant_integer(pool.padding[i], ElementType::i64));
    position = add(
        mul(position, constant_integer(spatial_size(x, i), ElementType::i64)),
        coordinate(i, begin));
  }
  return position;
}

// The position of each element that `at_offset` returns.
Value position_at(
    const Value& x, const Pool& pool, const Dims& offset, const Shape& shape) {
  return positions(x, pool, shape, [&](std::size_t i, const Value& begin) {
    return add(
        begin,
        constant_integer(offset[i] * pool.dilation[i], ElementType::i64));
  });
}

// The position of each window's first element that is not padding.
Value first_position(const Value& x, const Pool& pool, const Shape& shape) {
  return positions(x, pool, shape, [&](std::size_t i, const Value& begin) {
    const Value step = constant_integer(pool.dilation[i], ElementType::i64);
    const Value last = constant_integer(pool.dilation[i] - 1, ElementType::i64);
    const Value none = constant_integer(0, ElementType::i64);
    const Value skipped = divide(maximum(sub(last, begin), none), step);
    return add(begin, mul(skipped, step));
  });
}

Value padded_for_max(const Value& x, const Pool& pool) {
  const std::size_t rank = x->shape.size();
  Dims high;
  for (std::size_t i = 0; i < 2; ++i) {
    high.push_back(padding_after(pool, x, i));
  }
  return pad(
      x,
      identity(Op::maximum, x->type),
      for_spatial(rank, pool.padding, 0),
      for_spatial(rank, high, 0));
}

// The first maximum of each window, or its last NaN, as on the CPU.
std::pair<Value, Value> max_and_position(const Value& x, const Pool& pool) {
  const Value padded = padded_for_max(x, pool);
  Shape shape = x->shape;
  std::copy(pool.output.begin(), pool.output.end(), shape.end() - 2);
  Value best = broadcast(identity(Op::maximum, x->type), shape);
  Value position = first_position(x, pool, shape);
  for (std::int64_t row = 0; row < pool.size[0]; ++row) {
    for (std::int64_t column = 0; column < pool.size[1]; ++column) {
      const Value candidate = at_offset(padded, pool, {row, column});
      const Value place = position_at(x, pool, {row, column}, shape);
      // An element of the padding is never greater than `best`.
      Value better = compare(Compare::gt, candidate, best);
      if (is_floating(x->type)) {
        better = binary(
            Op::logical_or, better, compare(Compare::ne, candidate, candidate));
      }
      position = select(better, place, position);
      best = select(better, candidate, best);
    }
  }
  return {best, position};
}

// max_pool2d_with_indices(self, kernel_size, stride, padding, dilation,
// ceil_mode)
void max_pool(Call& call) {
  const Value x = call.value(0);
  const Pool pool = make_pool(
      x,
      call.integers(1),
      call.integers(2),
      call.integers(3),
      call.integers(4),
      call.flag(5));
  const auto [best, position] = max_and_position(x, pool);
  call.result(best);
  call.result(position);
}

// max_pool2d_with_indices_backward(grad, self, kernel_size, stride, padding,
// dilation, ceil_mode, indices)
void max_pool_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Value x = call.value(1);
  const std::int64_t plane = spatial_size(x, 0) * spatial_size(x, 1);
  const std::int64_t planes = element_count(x->shape) / plane;
  const std::int64_t windows = element_count(gradient->shape) / planes;
  const Value indices = reshape(call.value(7), {planes, windows});
  const std::int64_t count = planes * windows;
  const Value coordinates = concatenate(
      {reshape(iota(ElementType::i64, {planes, windows}, 0), {count, 1}),
       reshape(indices, {count, 1})},
      1);
  const Value sums = put_at(
      Scatter::add,
      constant(0, gradient->type, {planes, plane}),
      coordinates,
      reshape(gradient, {count}));
  call.result(reshape(sums, x->shape));
}

// ---- average ----

Value window_sums(const Value& x, const Pool& pool) {
  const std::size_t rank = x->shape.size();
  Dims high;
  for (std::size_t i = 0; i < 2; ++i) {
    high.push_back(padding_after(pool, x, i));
  }
  return reduce_window(
      Op::add,
      x,
      {for_spatial(rank, pool.size, 1),
       for_spatial(rank, pool.stride, 1),
       for_spatial(rank, pool.padding, 0),
       for_spatial(rank, high, 0),
       Dims(rank, 1)});
}

// How many elements each window counts: those of the input, and with
// `with_padding` those of the padding on both sides (but not beyond).
Value window_counts(const Value& x, const Pool& pool, bool with_padding) {
  Shape plane{spatial_size(x, 0), spatial_size(x, 1)};
  if (!with_padding) {
    return window_sums(constant(1, x->type, plane), pool);
  }
  Pool inner = pool;
  for (std::size_t i = 0; i < 2; ++i) {
    plane[i] += 2 * pool.padding[i];
    inner.padding[i] = 0;
  }
  return window_sums(constant(1, x->type, plane), inner);
}

// The arguments from `first` on: kernel_size, stride, padding, ceil_mode,
// count_include_pad, divisor_override.
struct Average {
  Pool pool;
  Value divisor;
};

Average average_of(const Call& call, std::size_t first, const Value& x) {
  const Pool pool = make_pool(
      x,
      call.integers(first),
      call.integers(first + 1),
      call.integers(first + 2),
      {1, 1},
      call.flag(first + 3));
  if (!call.is_none(first + 5)) {
    return {
        pool, constant(static_cast<double>(call.integer(first + 5)), x->type)};
  }
  return {pool, window_counts(x, pool, call.flag(first + 4))};
}

void average_pool(Call& call) {
  const Value x = call.value(0);
  const Average average = average_of(call, 1, x);
  call.result(divide(window_sums(x, average.pool), average.divisor));
}

// Each element of the input gets a share of the gradient of every window that
// counts it.
void average_pool_gradient(Call& call) {
  const Value x = call.value(1);
  const Average average = average_of(call, 2, x);
  const Pool& pool = average.pool;
  const Value shares = divide(call.value(0), average.divisor);
  const std::size_t rank = x->shape.size();
  Dims low;
  Dims high;
  Dims interior;
  for (std::size_t i = 0; i < 2; ++i) {
    low.push_back(pool.size[i] - 1 - pool.padding[i]);
    interior.push_back(pool.stride[i] - 1);
    const std::int64_t covered = (pool.output[i] - 1) * pool.stride[i] + 1;
    high.push_back(spatial_size(x, i) + pool.size[i] - 1 - low[i] - covered);
  }
  const Value spread =
      pad(shares,
          constant_like(0, shares),
          for_spatial(rank, low, 0),
          for_spatial(rank, high, 0),
          for_spatial(rank, interior, 0));
  call.result(reduce_window(
      Op::add,
      spread,
      {for_spatial(rank, pool.size, 1),
       Dims(rank, 1),
       Dims(rank, 0),
       Dims(rank, 0),
       Dims(rank, 1)}));
}

// ---- adaptive average ----

// The matrix [output, input] that averages `input` elements to `output`
// elements. Row `o` has equal weights from floor(o * input / output) to
// ceil((o + 1) * input / output).
Value averaging_matrix(
    ElementType type, std::int64_t output, std::int64_t input) {
  const Shape shape{output, input};
  const auto number = [](std::int64_t value) {
    return constant_integer(value, ElementType::i64);
  };
  const Value row = iota(ElementType::i64, shape, 0);
  const Value column = iota(ElementType::i64, shape, 1);
  const Value start = divide(mul(row, number(input)), number(output));
  const Value end = divide(
      add(mul(add(row, number(1)), number(input)), number(output - 1)),
      number(output));
  const Value inside = binary(
      Op::logical_and,
      compare(Compare::ge, column, start),
      compare(Compare::lt, column, end));
  return divide(convert(inside, type), convert(sub(end, start), type));
}

// Multiplies the last two dimensions by `rows` and `columns`, both [to, from].
Value averaged(const Value& x, const Value& rows, const Value& columns) {
  const std::int64_t rank = rank_of(x);
  // The contracted dimension disappears and the new one comes last, so that the
  // first matmul swaps the two dimensions and the second restores their order.
  const Value half =
      dot(x, rows, {.contract_a = {rank - 2}, .contract_b = {1}});
  return dot(half, columns, {.contract_a = {rank - 2}, .contract_b = {1}});
}

// _adaptive_avg_pool2d(self, output_size)
void adaptive_average(Call& call) {
  const Value x = call.value(0);
  const Dims sizes = pair_of(call.integers(1), {});
  call.result(averaged(
      x,
      averaging_matrix(x->type, sizes[0], spatial_size(x, 0)),
      averaging_matrix(x->type, sizes[1], spatial_size(x, 1))));
}

void adaptive_average_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Value x = call.value(1);
  const auto back = [&](std::size_t i) {
    return transpose(
        averaging_matrix(
            x->type, spatial_size(gradient, i), spatial_size(x, i)),
        {1, 0});
  };
  call.result(averaged(gradient, back(0), back(1)));
}

}  // namespace

Lowerings pooling_lowerings() {
  return {
      {"max_pool2d_with_indices", max_pool},
      {"max_pool2d_with_indices_backward", max_pool_gradient},
      {"avg_pool2d", average_pool},
      {"avg_pool2d_backward", average_pool_gradient},
      {"_adaptive_avg_pool2d", adaptive_average},
      {"_adaptive_avg_pool2d_backward", adaptive_average_gradient},
  };
}

}  // namespace accelerate::xla
