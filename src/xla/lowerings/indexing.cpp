// SPDX-License-Identifier: Apache-2.0
// Operators that read or write elements at indices from tensors.
#include <algorithm>
#include <optional>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// Negative indices count from the end.
Value wrapped(const Value& index, std::int64_t size) {
  const Value positive = convert(index, ElementType::i64);
  return select(
      compare(Compare::lt, positive, constant(0, ElementType::i64)),
      add(positive, constant_integer(size, ElementType::i64)),
      positive);
}

Value flat(const Value& x) {
  return reshape(x, {element_count(x->shape)});
}

void index_select(Call& call) {
  const Value x = call.value(0);
  const Value indices = flat(call.value(2));
  if (x->shape.empty()) {
    call.result(x);
    return;
  }
  call.result(take(x, indices, call.dim(1, x->shape.size())));
}

// embedding_dense_backward(grad, indices, num_weights, padding_idx, scale)
void embedding_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Value indices = call.value(1);
  if (call.flag(4)) {
    throw UnsupportedError("scale_grad_by_freq is not supported");
  }
  const std::int64_t rows = element_count(indices->shape);
  const std::int64_t width = gradient->shape.back();
  const Value index = reshape(indices, {rows, 1});
  const Value padding = constant_integer(call.integer(3), index->type);
  const Value kept = select(
      compare(Compare::ne, index, padding),
      reshape(gradient, {rows, width}),
      constant_like(0, gradient));
  call.result(put_at(
      Scatter::add,
      constant(0, gradient->type, {call.integer(2), width}),
      index,
      kept));
}

// ---- gather and scatter along one dimension ----

// The coordinates [count, rank] of the elements of `index`, but with the
// element itself as the coordinate in dimension `dim`.
Value coordinates_along(const Value& index, std::int64_t dim) {
  const std::int64_t count = element_count(index->shape);
  std::vector<Value> columns;
  for (std::int64_t i = 0; i < rank_of(index); ++i) {
    const Value column = i == dim ? convert(index, ElementType::i64)
                                  : iota(ElementType::i64, index->shape, i);
    columns.push_back(reshape(column, {count, 1}));
  }
  return concatenate(columns, 1);
}

// gather(self, dim, index, sparse_grad)
void gather(Call& call) {
  const Value x = call.value(0);
  const Value index = call.value(2);
  if (x->shape.empty()) {
    call.result(reshape(x, index->shape));
    return;
  }
  const std::int64_t dim = call.dim(1, x->shape.size());
  call.result(reshape(take_at(x, coordinates_along(index, dim)), index->shape));
}

// The part of `x` that scatter reads: the first elements along each dimension.
Value leading_part(const Value& x, const Shape& shape) {
  return slice(x, Dims(shape.size(), 0), shape);
}

// scatter(self, dim, index, src or value) and scatter_add.
Lowering scatter(const char* name, Scatter mode) {
  return {name, [mode](Call& call) {
            const Value x = call.value(0);
            const Value index = call.value(2);
            const Value source = call.value(3, x->type);
            if (x->shape.empty()) {
              call.result(
                  mode == Scatter::add ? add(x, reshape(source, {}))
                                       : reshape(source, {}));
              return;
            }
            const Value updates = source->shape.empty()
                                      ? broadcast(source, index->shape)
                                      : leading_part(source, index->shape);
            const std::int64_t dim = call.dim(1, x->shape.size());
            call.result(
                put_at(mode, x, coordinates_along(index, dim), flat(updates)));
          }};
}

// index_add(self, dim, index, source, alpha)
void index_add(Call& call) {
  const Value x = call.value(0);
  const std::int64_t dim = call.dim(1, x->shape.size());
  const Value index = flat(call.value(2));
  const Value source = mul(call.value(3, x->type), call.value(4, x->type));
  Dims order{dim};
  for (std::int64_t i = 0; i < rank_of(x); ++i) {
    if (i != dim) {
      order.push_back(i);
    }
  }
  Dims back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  const Value sum = put_at(
      Scatter::add,
      transpose(x, order),
      unsqueeze(index, 1),
      transpose(source, order));
  call.result(transpose(sum, back));
}

// ---- index and index_put ----

// An advanced index as PyTorch defines it: index tensors at some dimensions,
// broadcast to one shape. The dimensions of that shape come first in the
// result, unless the indexed dimensions are adjacent.
struct AdvancedIndex {
  std::vector<Value> indices;  ///< Broadcast, one per indexed dimension.
  Dims indexed;
  Dims others;
  Shape shape;  ///< Of the broadcast indices.
  bool adjacent = true;
};

// Boolean masks have results whose shape depends on data.
Value index_value(
    const Call& call, const at::Tensor& tensor, std::int64_t size) {
  if (tensor.scalar_type() == c10::ScalarType::Bool ||
      tensor.scalar_type() == c10::ScalarType::Byte) {
    throw UnsupportedError(
        str_cat(
            call.name(),
            " with a boolean mask is not supported on the XLA device: the "
            "shape of the result depends on the mask"),
        "use `where` or `masked_fill`, or index on the CPU");
  }
  return wrapped(
      is_xla(tensor) ? read(tensor) : upload(tensor.contiguous()), size);
}

AdvancedIndex advanced_index(const Call& call, const Value& x) {
  AdvancedIndex result;
  const std::vector<at::Tensor> indices = call.tensors(1);
  for (std::int64_t dim = 0; dim < rank_of(x); ++dim) {
    const auto i = static_cast<std::size_t>(dim);
    if (i >= indices.size() || !indices[i].defined()) {
      result.others.push_back(dim);
      continue;
    }
    if (!result.indexed.empty() && result.indexed.back() != dim - 1) {
      result.adjacent = false;
    }
    result.indexed.push_back(dim);
    result.indices.push_back(index_value(call, indices[i], x->shape[i]));
    result.shape = broadcast_shapes(result.shape, result.indices.back()->shape);
  }
  for (Value& index : result.indices) {
    index = broadcast(index, result.shape);
  }
  return result;
}

Value coordinates(const AdvancedIndex& index) {
  const std::int64_t count = element_count(index.shape);
  std::vector<Value> columns;
  for (const Value& column : index.indices) {
    columns.push_back(reshape(column, {count, 1}));
  }
  return concatenate(columns, 1);
}

Dims concatenated(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// From [index shape, other dimensions] to the order of the result.
Dims result_order(const AdvancedIndex& index) {
  const auto count = static_cast<std::int64_t>(index.shape.size());
  const auto others = static_cast<std::int64_t>(index.others.size());
  const std::int64_t before = index.adjacent ? index.indexed[0] : 0;
  Dims order = range_of_dims(count, count + before);
  order = concatenated(order, range_of_dims(0, count));
  return concatenated(order, range_of_dims(count + before, count + others));
}

Dims inverse(const Dims& order) {
  Dims back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return back;
}

Shape other_sizes(const AdvancedIndex& index, const Value& x) {
  Shape sizes;
  for (const std::int64_t dim : index.others) {
    sizes.push_back(x->shape[static_cast<std::size_t>(dim)]);
  }
  return sizes;
}

void index_tensor(Call& call) {
  const Value x = call.value(0);
  const AdvancedIndex index = advanced_index(call, x);
  const Value front = transpose(x, concatenated(index.indexed, index.others));
  const Value rows = take_at(front, coordinates(index));
  const Value shaped =
      reshape(rows, concatenated(index.shape, other_sizes(index, x)));
  call.result(transpose(shaped, result_order(index)));
}

// index_put(self, indices, values, accumulate)
void index_put(Call& call) {
  const Value x = call.value(0);
  const AdvancedIndex index = advanced_index(call, x);
  const Dims to_front = concatenated(index.indexed, index.others);
  const Dims order = result_order(index);
  const Shape rows = concatenated(index.shape, other_sizes(index, x));
  Shape result_shape;
  for (const std::int64_t dim : order) {
    result_shape.push_back(rows[static_cast<std::size_t>(dim)]);
  }
  const Value values = transpose(
      broadcast(call.value(2, x->type), result_shape), inverse(order));
  const Shape flat_rows =
      concatenated({element_count(index.shape)}, other_sizes(index, x));
  const Value written = put_at(
      call.flag(3) ? Scatter::add : Scatter::set,
      transpose(x, to_front),
      coordinates(index),
      reshape(values, flat_rows));
  call.result(transpose(written, inverse(to_front)));
}

// ---- gradients of views ----

// slice_backward(grad, input_sizes, dim, start, end, step)
void slice_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Shape sizes = call.integers(1);
  const std::int64_t dim = call.dim(2, sizes.size());
  const auto i = static_cast<std::size_t>(dim);
  const std::int64_t first = call.integer(3);
  const std::int64_t start = std::clamp<std::int64_t>(
      first < 0 ? first + sizes[i] : first, 0, sizes[i]);
  const std::int64_t step = call.integer(5);
  const std::int64_t count = gradient->shape[i];
  Dims low(sizes.size(), 0);
  Dims high(sizes.size(), 0);
  Dims interior(sizes.size(), 0);
  low[i] = start;
  interior[i] = step - 1;
  const std::int64_t covered = count == 0 ? 0 : (count - 1) * step + 1;
  high[i] = sizes[i] - start - covered;
  call.result(pad(gradient, constant_like(0, gradient), low, high, interior));
}

// select_backward(grad, input_sizes, dim, index)
void select_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Shape sizes = call.integers(1);
  const std::int64_t dim = call.dim(2, sizes.size());
  const auto i = static_cast<std::size_t>(dim);
  std::int64_t index = call.integer(3);
  index += index < 0 ? sizes[i] : 0;
  Dims low(sizes.size(), 0);
  Dims high(sizes.size(), 0);
  low[i] = index;
  high[i] = sizes[i] - index - 1;
  call.result(
      pad(unsqueeze(gradient, dim), constant_like(0, gradient), low, high));
}

// unfold_backward(grad, input_sizes, dim, size, step): adds each element of a
// window to the element that it came from. The windows' elements are the last
// dimension of `grad`.
void unfold_gradient(Call& call) {
  const Value gradient = call.value(0);
  const Shape sizes = call.integers(1);
  if (sizes.empty()) {
    call.result(reshape(gradient, {}));
    return;
  }
  const std::int64_t dim = call.dim(2, sizes.size());
  const std::int64_t last = rank_of(gradient) - 1;
  const Dims order = concatenated(
      {dim, last},
      concatenated(range_of_dims(0, dim), range_of_dims(dim + 1, last)));
  const Value windows = transpose(gradient, order);
  const Shape grid{windows->shape[0], windows->shape[1]};
  const Value start =
      mul(iota(ElementType::i64, grid, 0),
          constant_integer(call.integer(4), ElementType::i64));
  const Value position = add(start, iota(ElementType::i64, grid, 1));
  Shape others = sizes;
  others.erase(others.begin() + dim);
  const std::int64_t count = element_count(grid);
  const Value sum = put_at(
      Scatter::add,
      constant(
          0,
          gradient->type,
          concatenated({sizes[static_cast<std::size_t>(dim)]}, others)),
      reshape(position, {count, 1}),
      reshape(windows, concatenated({count}, others)));
  call.result(transpose(
      sum,
      inverse(concatenated(
          {dim},
          concatenated(range_of_dims(0, dim), range_of_dims(dim + 1, last))))));
}

}  // namespace

Lowerings indexing_lowerings() {
  return {
      {"index_select", index_select},
      {"embedding_dense_backward", embedding_gradient},
      {"gather", gather},
      scatter("scatter.src", Scatter::set),
      scatter("scatter.value", Scatter::set),
      scatter("scatter_add", Scatter::add),
      {"index_add", index_add},
      {"index.Tensor", index_tensor},
      {"index_put", index_put},
      {"_index_put_impl_", index_put},
      {"slice_backward", slice_gradient},
      {"select_backward", select_gradient},
      {"unfold_backward", unfold_gradient},
  };
}

}  // namespace accelerate::xla
