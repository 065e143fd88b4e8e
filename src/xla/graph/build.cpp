// SPDX-License-Identifier: Apache-2.0
#include "xla/graph/build.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate::xla {
namespace {

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (const std::int64_t dim : dims) {
    text += str_cat(text.size() > 1 ? ", " : "", dim);
  }
  return text + "]";
}

[[noreturn]] void throw_shapes(
    std::string_view operation, const Shape& a, const Shape& b) {
  throw ArgumentError(str_cat(
      operation,
      ": the shapes ",
      text_of(a),
      " and ",
      text_of(b),
      " do not match"));
}

Value make(
    Op op,
    ElementType type,
    Shape shape,
    std::vector<Value> operands,
    std::vector<std::int64_t> numbers = {}) {
  // Nodes are created under `Tracer::lock`.
  static std::uint64_t count = 0;
  auto node = std::make_shared<Node>();
  node->op = op;
  node->sequence = ++count;
  node->type = type;
  node->shape = std::move(shape);
  node->operands = std::move(operands);
  node->numbers = std::move(numbers);
  return node;
}

std::int64_t rank(const Value& x) {
  return static_cast<std::int64_t>(x->shape.size());
}

std::int64_t size_at(const Value& x, std::int64_t dim) {
  return x->shape[static_cast<std::size_t>(dim)];
}

bool has(const Dims& dims, std::int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

void append(std::vector<std::int64_t>& to, const Dims& list) {
  to.push_back(static_cast<std::int64_t>(list.size()));
  to.insert(to.end(), list.begin(), list.end());
}

Dims filled(std::size_t count, std::int64_t number) {
  return Dims(count, number);
}

void check_type(Op op, const Value& a, const Value& b) {
  if (a->type != b->type) {
    throw InternalError(str_cat(
        name_of(op),
        " got operands of types ",
        name_of(a->type),
        " and ",
        name_of(b->type)));
  }
}

}  // namespace

std::string_view name_of(Op op) {
  static constexpr std::string_view kNames[] = {
#define ACCELERATE_XLA_NAME(name, text) #name,
      ACCELERATE_XLA_OPS(ACCELERATE_XLA_NAME)
#undef ACCELERATE_XLA_NAME
  };
  return kNames[static_cast<std::size_t>(op)];
}

Node::~Node() {
  std::vector<Value> pending;
  const auto collect = [&pending](std::vector<Value>& values) {
    for (Value& operand : values) {
      if (operand != nullptr && operand.use_count() == 1) {
        pending.push_back(std::move(operand));
      }
    }
  };
  collect(operands);
  while (!pending.empty()) {
    const Value node = std::move(pending.back());
    pending.pop_back();
    collect(node->operands);
  }
}

// ---- leaves ----

Value input(
    std::shared_ptr<const DeviceArray> array, ElementType type, Shape shape) {
  Value node = make(Op::input, type, std::move(shape), {});
  node->array = std::move(array);
  return node;
}

Value scalar(double number, ElementType type) {
  if (!is_floating(type)) {
    return constant(number, type);
  }
  Value node = make(Op::scalar, type, {}, {});
  node->bits = std::bit_cast<std::uint64_t>(number);
  return node;
}

Value scalar_u64(std::uint64_t number) {
  Value node = make(Op::scalar, ElementType::u64, {}, {});
  node->bits = number;
  return node;
}

Value constant(double number, ElementType type, const Shape& shape) {
  if (type == ElementType::pred) {
    return constant_integer(number != 0 ? 1 : 0, type, shape);
  }
  if (!is_floating(type)) {
    return constant_integer(static_cast<std::int64_t>(number), type, shape);
  }
  return make(
      Op::constant, type, shape, {}, {std::bit_cast<std::int64_t>(number)});
}

Value constant_integer(
    std::int64_t number, ElementType type, const Shape& shape) {
  if (is_floating(type)) {
    return constant(static_cast<double>(number), type, shape);
  }
  if (type == ElementType::pred) {
    number = number != 0 ? 1 : 0;
  }
  return make(Op::constant, type, shape, {}, {number});
}

Value iota(ElementType type, const Shape& shape, std::int64_t dim) {
  return make(Op::iota, type, shape, {}, {dim});
}

// ---- shapes ----

Value convert(const Value& x, ElementType type) {
  if (x->type == type) {
    return x;
  }
  if (type == ElementType::pred) {
    return compare(Compare::ne, x, constant(0, x->type));
  }
  return make(Op::convert, type, x->shape, {x});
}

Value bitcast(const Value& x, ElementType type) {
  return make(Op::bitcast, type, x->shape, {x});
}

Value reshape(const Value& x, const Shape& shape) {
  if (x->shape == shape) {
    return x;
  }
  if (element_count(x->shape) != element_count(shape)) {
    throw_shapes("reshape", x->shape, shape);
  }
  if (x->op == Op::reshape) {
    return reshape(x->operands[0], shape);
  }
  return make(Op::reshape, x->type, shape, {x});
}

Value transpose(const Value& x, const Dims& permutation) {
  Shape shape;
  for (const std::int64_t dim : permutation) {
    shape.push_back(size_at(x, dim));
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) {
    return x;
  }
  return make(Op::transpose, x->type, shape, {x}, permutation);
}

Value broadcast_in_dim(const Value& x, const Shape& shape, const Dims& dims) {
  return make(Op::broadcast, x->type, shape, {x}, dims);
}

Value broadcast(const Value& x, const Shape& shape) {
  if (x->shape == shape) {
    return x;
  }
  const auto added = static_cast<std::int64_t>(shape.size()) - rank(x);
  if (added < 0) {
    throw_shapes("broadcast", x->shape, shape);
  }
  Dims dims;
  for (std::int64_t dim = 0; dim < rank(x); ++dim) {
    const std::int64_t size = size_at(x, dim);
    if (size != 1 && size != shape[static_cast<std::size_t>(added + dim)]) {
      throw_shapes("broadcast", x->shape, shape);
    }
    dims.push_back(added + dim);
  }
  return broadcast_in_dim(x, shape, dims);
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape shape = longer;
  const std::size_t added = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& size = shape[added + i];
    if (size == 1) {
      size = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != size) {
      throw_shapes("broadcast", a, b);
    }
  }
  return shape;
}

Value slice(
    const Value& x, const Dims& from, const Dims& to, const Dims& strides) {
  const Dims steps = strides.empty() ? filled(from.size(), 1) : strides;
  Shape shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    shape.push_back((to[i] - from[i] + steps[i] - 1) / steps[i]);
  }
  if (shape == x->shape) {
    return x;
  }
  std::vector<std::int64_t> numbers;
  append(numbers, from);
  append(numbers, to);
  append(numbers, steps);
  return make(Op::slice, x->type, shape, {x}, numbers);
}

Value update_slice(const Value& x, const Value& part, const Dims& from) {
  check_type(Op::update_slice, x, part);
  std::vector<Value> operands{x, part};
  for (const std::int64_t start : from) {
    operands.push_back(constant_integer(start, ElementType::i32));
  }
  return make(Op::update_slice, x->type, x->shape, std::move(operands));
}

Value concatenate(const std::vector<Value>& parts, std::int64_t dim) {
  if (parts.size() == 1) {
    return parts[0];
  }
  Shape shape = parts[0]->shape;
  std::int64_t& size = shape[static_cast<std::size_t>(dim)];
  size = 0;
  for (const Value& part : parts) {
    check_type(Op::concatenate, parts[0], part);
    size += size_at(part, dim);
  }
  return make(Op::concatenate, parts[0]->type, shape, parts, {dim});
}

Value pad(
    const Value& x,
    const Value& fill,
    const Dims& low,
    const Dims& high,
    const Dims& interior) {
  check_type(Op::pad, x, fill);
  const Dims between = interior.empty() ? filled(low.size(), 0) : interior;
  Shape shape;
  for (std::size_t i = 0; i < low.size(); ++i) {
    const std::int64_t size = x->shape[i];
    shape.push_back(
        low[i] + high[i] + size +
        std::max<std::int64_t>(size - 1, 0) * between[i]);
  }
  std::vector<std::int64_t> numbers;
  append(numbers, low);
  append(numbers, high);
  append(numbers, between);
  return make(Op::pad, x->type, shape, {x, fill}, numbers);
}

Value reverse(const Value& x, const Dims& dims) {
  return make(Op::reverse, x->type, x->shape, {x}, dims);
}

// ---- element by element ----

Value unary(Op op, const Value& x) {
  const ElementType type = op == Op::is_finite ? ElementType::pred : x->type;
  return make(op, type, x->shape, {x});
}

Value binary(Op op, const Value& a, const Value& b) {
  check_type(op, a, b);
  const Shape shape = broadcast_shapes(a->shape, b->shape);
  return make(op, a->type, shape, {broadcast(a, shape), broadcast(b, shape)});
}

Value compare(Compare direction, const Value& a, const Value& b) {
  check_type(Op::compare, a, b);
  const Shape shape = broadcast_shapes(a->shape, b->shape);
  return make(
      Op::compare,
      ElementType::pred,
      shape,
      {broadcast(a, shape), broadcast(b, shape)},
      {static_cast<std::int64_t>(direction)});
}

Value select(const Value& condition, const Value& yes, const Value& no) {
  check_type(Op::select, yes, no);
  const Shape shape = broadcast_shapes(
      broadcast_shapes(yes->shape, no->shape), condition->shape);
  return make(
      Op::select,
      yes->type,
      shape,
      {broadcast(condition, shape),
       broadcast(yes, shape),
       broadcast(no, shape)});
}

// ---- reductions ----

namespace {

std::int64_t smallest(ElementType type) {
  switch (type) {
    case ElementType::i64:
      return std::numeric_limits<std::int64_t>::min();
    case ElementType::i32:
      return std::numeric_limits<std::int32_t>::min();
    case ElementType::i16:
      return std::numeric_limits<std::int16_t>::min();
    case ElementType::i8:
      return std::numeric_limits<std::int8_t>::min();
    default:
      return 0;
  }
}

std::int64_t largest(ElementType type) {
  switch (type) {
    case ElementType::i64:
      return std::numeric_limits<std::int64_t>::max();
    case ElementType::i32:
      return std::numeric_limits<std::int32_t>::max();
    case ElementType::i16:
      return std::numeric_limits<std::int16_t>::max();
    case ElementType::i8:
      return std::numeric_limits<std::int8_t>::max();
    case ElementType::u8:
      return std::numeric_limits<std::uint8_t>::max();
    default:
      return 1;
  }
}

// The shape after a reduction of `dims`, with ones in their place if `keep`.
Shape reduced_shape(const Shape& shape, const Dims& dims, bool keep) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!has(dims, static_cast<std::int64_t>(i))) {
      result.push_back(shape[i]);
    } else if (keep) {
      result.push_back(1);
    }
  }
  return result;
}

}  // namespace

Value identity(Op op, ElementType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case Op::maximum:
      return is_floating(type) ? constant(-kInfinity, type)
                               : constant_integer(smallest(type), type);
    case Op::minimum:
      return is_floating(type) ? constant(kInfinity, type)
                               : constant_integer(largest(type), type);
    case Op::multiply:
    case Op::logical_and:
      return constant(1, type);
    case Op::add:
    case Op::logical_or:
      return constant(0, type);
    default:
      throw InternalError(str_cat(name_of(op), " is not a reduction"));
  }
}

Value reduce(Op op, const Value& x, const Dims& dims, bool keep_dims) {
  if (dims.empty()) {
    return x;
  }
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(op)};
  numbers.insert(numbers.end(), dims.begin(), dims.end());
  const Value result = make(
      Op::reduce,
      x->type,
      reduced_shape(x->shape, dims, false),
      {x, identity(op, x->type)},
      numbers);
  return keep_dims ? reshape(result, reduced_shape(x->shape, dims, true))
                   : result;
}

Value reduce_window(Op op, const Value& x, const Window& window) {
  const std::size_t count = x->shape.size();
  const Dims base =
      window.base_dilation.empty() ? filled(count, 1) : window.base_dilation;
  Shape shape;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t extent =
        (x->shape[i] - 1) * base[i] + 1 + window.low[i] + window.high[i];
    const std::int64_t reach = (window.size[i] - 1) * window.dilation[i] + 1;
    shape.push_back((extent - reach) / window.strides[i] + 1);
  }
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(op)};
  for (const Dims& list :
       {window.size,
        window.strides,
        base,
        window.dilation,
        window.low,
        window.high}) {
    append(numbers, list);
  }
  return make(
      Op::reduce_window, x->type, shape, {x, identity(op, x->type)}, numbers);
}

namespace {

Value result_of(const Value& node, std::size_t index) {
  if (index == 0) {
    return node;
  }
  const ExtraResult& extra = node->extra_results[index - 1];
  return make(
      Op::result,
      extra.type,
      extra.shape,
      {node},
      {static_cast<std::int64_t>(index)});
}

}  // namespace

std::pair<Value, Value> sort(
    const Value& keys, const Value& values, std::int64_t dim, bool descending) {
  Value node = make(
      Op::sort,
      keys->type,
      keys->shape,
      {keys, values},
      {dim, descending ? 1 : 0});
  node->extra_results.push_back({values->type, values->shape});
  return {node, result_of(node, 1)};
}

// ---- matmuls and convolutions ----

Value dot(const Value& a, const Value& b, const DotDims& dims) {
  check_type(Op::dot, a, b);
  Shape shape;
  for (std::size_t i = 0; i < dims.contract_a.size(); ++i) {
    if (size_at(a, dims.contract_a[i]) != size_at(b, dims.contract_b[i])) {
      throw_shapes("matmul", a->shape, b->shape);
    }
  }
  for (std::size_t i = 0; i < dims.batch_a.size(); ++i) {
    if (size_at(a, dims.batch_a[i]) != size_at(b, dims.batch_b[i])) {
      throw_shapes("batched matmul", a->shape, b->shape);
    }
    shape.push_back(size_at(a, dims.batch_a[i]));
  }
  const auto append_rest =
      [&shape](const Value& x, const Dims& batch, const Dims& contract) {
        for (std::int64_t dim = 0; dim < rank(x); ++dim) {
          if (!has(batch, dim) && !has(contract, dim)) {
            shape.push_back(size_at(x, dim));
          }
        }
      };
  append_rest(a, dims.batch_a, dims.contract_a);
  append_rest(b, dims.batch_b, dims.contract_b);
  std::vector<std::int64_t> numbers;
  for (const Dims& list :
       {dims.batch_a, dims.batch_b, dims.contract_a, dims.contract_b}) {
    append(numbers, list);
  }
  return make(Op::dot, a->type, shape, {a, b}, numbers);
}

namespace {

// The sizes [batch, features] of the result for each layout.
Shape convolution_outer_shape(
    const Value& a, const Value& b, const Convolution& options) {
  switch (options.layout) {
    case ConvolutionLayout::forward:
      return {a->shape[0] / options.batch_groups, b->shape[0]};
    case ConvolutionLayout::input_gradient:
      return {a->shape[0], b->shape[1]};
    case ConvolutionLayout::weight_gradient:
      // The result is [f, b]: features first.
      return {b->shape[1], a->shape[1] / options.batch_groups};
  }
  throw InternalError("a convolution has an unknown layout");
}

}  // namespace

Value convolution(const Value& a, const Value& b, const Convolution& options) {
  check_type(Op::convolution, a, b);
  Shape shape = convolution_outer_shape(a, b, options);
  for (std::size_t i = 0; i < options.strides.size(); ++i) {
    const std::int64_t extent = (a->shape[i + 2] - 1) * options.a_dilation[i] +
                                1 + options.low[i] + options.high[i];
    const std::int64_t reach =
        (b->shape[i + 2] - 1) * options.b_dilation[i] + 1;
    if (extent < reach) {
      throw_shapes("convolution", a->shape, b->shape);
    }
    shape.push_back((extent - reach) / options.strides[i] + 1);
  }
  std::vector<std::int64_t> numbers{
      static_cast<std::int64_t>(options.layout),
      options.reverse_window ? 1 : 0,
      options.feature_groups,
      options.batch_groups};
  for (const Dims& list :
       {options.strides,
        options.low,
        options.high,
        options.a_dilation,
        options.b_dilation}) {
    append(numbers, list);
  }
  return make(Op::convolution, a->type, shape, {a, b}, numbers);
}

// ---- gather and scatter ----

// Numbers of a gather: offset_dims, collapsed_slice_dims, start_index_map,
// slice_sizes. The index vectors are the last dimension of the indices.
Value take(const Value& x, const Value& indices, std::int64_t dim) {
  Shape shape = x->shape;
  shape[static_cast<std::size_t>(dim)] = indices->shape[0];
  Shape sizes = x->shape;
  sizes[static_cast<std::size_t>(dim)] = 1;
  Dims offsets;
  for (std::int64_t i = 0; i < rank(x); ++i) {
    if (i != dim) {
      offsets.push_back(i);
    }
  }
  std::vector<std::int64_t> numbers;
  for (const Dims& list : {offsets, Dims{dim}, Dims{dim}, sizes}) {
    append(numbers, list);
  }
  return make(
      Op::gather,
      x->type,
      shape,
      {x, reshape(indices, {indices->shape[0], 1})},
      numbers);
}

namespace {

// Returns the dimensions 0 to `count` - 1.
Dims first_dims(std::int64_t count) {
  Dims dims;
  for (std::int64_t i = 0; i < count; ++i) {
    dims.push_back(i);
  }
  return dims;
}

// Returns the dimensions 1 to `count`, which follow dimension 0 in the result.
Dims window_dims(std::int64_t count) {
  Dims dims;
  for (std::int64_t i = 1; i <= count; ++i) {
    dims.push_back(i);
  }
  return dims;
}

}  // namespace

Value take_at(const Value& x, const Value& indices) {
  const std::int64_t coordinates = indices->shape[1];
  Shape shape{indices->shape[0]};
  Shape sizes;
  for (std::int64_t i = 0; i < rank(x); ++i) {
    sizes.push_back(i < coordinates ? 1 : size_at(x, i));
    if (i >= coordinates) {
      shape.push_back(size_at(x, i));
    }
  }
  std::vector<std::int64_t> numbers;
  for (const Dims& list :
       {window_dims(rank(x) - coordinates),
        first_dims(coordinates),
        first_dims(coordinates),
        sizes}) {
    append(numbers, list);
  }
  return make(Op::gather, x->type, shape, {x, indices}, numbers);
}

Value put_at(
    Scatter mode, const Value& x, const Value& indices, const Value& updates) {
  check_type(Op::scatter, x, updates);
  const std::int64_t coordinates = indices->shape[1];
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(mode)};
  for (const Dims& list :
       {window_dims(rank(x) - coordinates),
        first_dims(coordinates),
        first_dims(coordinates)}) {
    append(numbers, list);
  }
  return make(Op::scatter, x->type, x->shape, {x, indices, updates}, numbers);
}

// ---- random numbers ----

Value random_bits(
    const Value& seed,
    const Value& offset,
    ElementType type,
    const Shape& shape) {
  const Value state =
      concatenate({reshape(seed, {1}), reshape(offset, {1})}, 0);
  Value node = make(Op::random_bits, ElementType::u64, {2}, {state});
  node->extra_results.push_back({type, shape});
  return result_of(node, 1);
}

}  // namespace accelerate::xla
