// SPDX-License-Identifier: Apache-2.0
// Builds the graph of a program. Each function checks its operands, infers the
// shape of the result and returns a new node.
//
// Values have no strides. Functions with two operands broadcast them as PyTorch
// does. Both operands must have the same element type; use `convert` if they do
// not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xla/graph/node.h"

namespace accelerate::xla {

using Dims = std::vector<std::int64_t>;

// ---- leaves ----

/// Returns a value that is already in device memory.
Value input(
    std::shared_ptr<const DeviceArray> array, ElementType type, Shape shape);
/// Returns a number that is an argument of the compiled program, so that it may
/// change from step to step without another compilation. If `type` is not a
/// floating-point type, returns a constant instead.
Value scalar(double number, ElementType type);
Value scalar_u64(std::uint64_t number);
/// Returns a value whose elements are all equal to `number`. The number is part
/// of the program, so a different number requires another compilation.
Value constant(double number, ElementType type, const Shape& shape = {});
Value constant_integer(
    std::int64_t number, ElementType type, const Shape& shape = {});
/// Returns the numbers 0, 1, 2, … along `dim`; they repeat along all other
/// dimensions.
Value iota(ElementType type, const Shape& shape, std::int64_t dim);

// ---- shapes ----

Value convert(const Value& x, ElementType type);
Value bitcast(const Value& x, ElementType type);
Value reshape(const Value& x, const Shape& shape);
Value transpose(const Value& x, const Dims& permutation);
/// Broadcasts `x` to `shape`. Dimension `i` of `x` becomes dimension `dims[i]`
/// of the result.
Value broadcast_in_dim(const Value& x, const Shape& shape, const Dims& dims);
/// Broadcasts `x` to `shape` as PyTorch does.
Value broadcast(const Value& x, const Shape& shape);
/// Returns the shape to which PyTorch broadcasts values of shapes `a` and `b`.
/// Throws `ArgumentError` if the shapes cannot be broadcast together.
Shape broadcast_shapes(const Shape& a, const Shape& b);
/// Returns the elements from `from` up to, but not including, `to`. If
/// `strides` is empty, all strides are 1.
Value slice(
    const Value& x, const Dims& from, const Dims& to, const Dims& strides = {});
/// Returns `x` with `part` written to it, starting at the coordinates `from`.
Value update_slice(const Value& x, const Value& part, const Dims& from);
Value concatenate(const std::vector<Value>& parts, std::int64_t dim);
/// Adds copies of `fill` to each dimension: `low` before the first element,
/// `high` after the last, and `interior` between adjacent elements. Negative
/// `low` and `high` remove elements.
Value pad(
    const Value& x,
    const Value& fill,
    const Dims& low,
    const Dims& high,
    const Dims& interior = {});
Value reverse(const Value& x, const Dims& dims);

// ---- element by element ----

Value unary(Op op, const Value& x);
Value binary(Op op, const Value& a, const Value& b);
enum class Compare : std::uint8_t { eq, ne, lt, le, gt, ge };
Value compare(Compare direction, const Value& a, const Value& b);
Value select(const Value& condition, const Value& yes, const Value& no);

// ---- reductions ----

/// Returns the identity element of `op`, such as 0 for `add`. `op` is add,
/// multiply, maximum, minimum, logical_and or logical_or.
Value identity(Op op, ElementType type);
/// Reduces the dimensions `dims`, which must not be negative.
Value reduce(Op op, const Value& x, const Dims& dims, bool keep_dims = false);

struct Window {
  // Each list has one number per dimension; `low` and `high` are padding.
  Dims size;
  Dims strides;
  Dims low;
  Dims high;
  Dims dilation;
  Dims base_dilation = {};  ///< If empty, all 1.
};
Value reduce_window(Op op, const Value& x, const Window& window);

/// Sorts `keys` along `dim` with a stable sort, and reorders `values` in the
/// same way. Returns both.
std::pair<Value, Value> sort(
    const Value& keys, const Value& values, std::int64_t dim, bool descending);

// ---- matmuls and convolutions ----

struct DotDims {
  Dims batch_a = {};
  Dims batch_b = {};
  Dims contract_a = {};
  Dims contract_b = {};
};
/// Multiplies `a` and `b`, and sums over the contracted dimensions. The result
/// has the batch dimensions, then the other dimensions of `a`, then the other
/// dimensions of `b`.
Value dot(const Value& a, const Value& b, const DotDims& dims);

/// The order of the dimensions in a convolution: `a` x `b` -> result. b: batch;
/// f: features; i: input features; o: output features; …: the spatial
/// dimensions.
enum class ConvolutionLayout : std::uint8_t {
  forward,          ///< [b,f,…] x [o,i,…] -> [b,f,…]
  input_gradient,   ///< [b,f,…] x [i,o,…] -> [b,f,…]
  weight_gradient,  ///< [f,b,…] x [i,o,…] -> [f,b,…]
};
struct Convolution {
  ConvolutionLayout layout = ConvolutionLayout::forward;
  // Each list has one number per spatial dimension; `low` and `high` are
  // padding.
  Dims strides = {};
  Dims low = {};
  Dims high = {};
  Dims a_dilation = {};
  Dims b_dilation = {};
  bool reverse_window = false;
  std::int64_t feature_groups = 1;
  std::int64_t batch_groups = 1;
};
Value convolution(const Value& a, const Value& b, const Convolution& options);

// ---- gather and scatter ----

/// Returns the elements of `x` whose index in dimension `dim` is in the 1-D
/// value `indices`, in the order of `indices`, like `index_select`.
Value take(const Value& x, const Value& indices, std::int64_t dim);
/// Returns n slices of `x`, as [n, remaining dimensions of x]. Row i of
/// `indices` [n, k] contains the first `k` coordinates of slice i.
Value take_at(const Value& x, const Value& indices);

enum class Scatter : std::uint8_t { set, add, maximum, minimum, multiply };
/// Returns a copy of `x` in which n slices are combined, as `mode` says, with
/// the n slices in `updates` [n, remaining dimensions of x]. Row i of `indices`
/// [n, k] contains the first `k` coordinates of the slice for `updates[i]`.
Value put_at(
    Scatter mode, const Value& x, const Value& indices, const Value& updates);

// ---- random numbers ----

/// Returns random bits of `type` (u32 or u64), which depend only on `seed` and
/// `offset`.
Value random_bits(
    const Value& seed,
    const Value& offset,
    ElementType type,
    const Shape& shape);

/// Returns the name of the enumerator, such as `add`, for messages.
std::string_view name_of(Op op);

}  // namespace accelerate::xla
