// SPDX-License-Identifier: Apache-2.0
// Makes nodes. Each function checks its operands and infers the result's shape.
//
// Values have no strides. Binary functions broadcast as PyTorch does and need
// operands of one element type; use `convert` first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xla/graph/node.h"

namespace accelerate::xla {

using Dims = std::vector<std::int64_t>;

// ---- leaves ----

/// A value in device memory.
Value input(
    std::shared_ptr<const DeviceArray> array, ElementType type, Shape shape);
/// A number that may differ from step to step without compiling again. Types
/// other than f32, f64, f16, bf16 and u64 become constants.
Value scalar(double number, ElementType type);
Value scalar_u64(std::uint64_t number);
/// A number that is part of the program.
Value constant(double number, ElementType type, const Shape& shape = {});
Value constant_integer(
    std::int64_t number, ElementType type, const Shape& shape = {});
/// 0, 1, 2, … along `dim`.
Value iota(ElementType type, const Shape& shape, std::int64_t dim);

// ---- shapes ----

Value convert(const Value& x, ElementType type);
Value bitcast(const Value& x, ElementType type);
Value reshape(const Value& x, const Shape& shape);
Value transpose(const Value& x, const Dims& permutation);
/// Puts dimension `i` of `x` at dimension `dims[i]` of `shape`.
Value broadcast_in_dim(const Value& x, const Shape& shape, const Dims& dims);
/// Broadcasts as PyTorch does.
Value broadcast(const Value& x, const Shape& shape);
/// Throws `ArgumentError` if the shapes do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b);
/// With `strides` left out, all 1.
Value slice(
    const Value& x, const Dims& from, const Dims& to, const Dims& strides = {});
/// `x` with `part` written at `from`.
Value update_slice(const Value& x, const Value& part, const Dims& from);
Value concatenate(const std::vector<Value>& parts, std::int64_t dim);
/// Negative `low` and `high` remove elements; `interior` inserts between.
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

/// The identity of a reduction with `op` (add, multiply, maximum, minimum,
/// logical_and, logical_or).
Value identity(Op op, ElementType type);
/// Reduces `dims`, which are not negative.
Value reduce(Op op, const Value& x, const Dims& dims, bool keep_dims = false);

struct Window {
  // One number per dimension each.
  Dims size;
  Dims strides;
  Dims low;
  Dims high;
  Dims dilation;
  Dims base_dilation = {};  ///< All 1 if left out.
};
Value reduce_window(Op op, const Value& x, const Window& window);

/// Sorts `keys` along `dim` (stable) and permutes `values` alike.
std::pair<Value, Value> sort(
    const Value& keys, const Value& values, std::int64_t dim, bool descending);

// ---- products ----

struct DotDims {
  Dims batch_a = {};
  Dims batch_b = {};
  Dims contract_a = {};
  Dims contract_b = {};
};
/// The result has the batch dimensions, then the rest of `a`, then of `b`.
Value dot(const Value& a, const Value& b, const DotDims& dims);

/// Where the dimensions of a convolution's operands are; the spatial ones
/// follow in order.
enum class ConvolutionLayout : std::uint8_t {
  forward,          ///< [b,f,…] x [o,i,…] -> [b,f,…]
  input_gradient,   ///< [b,f,…] x [i,o,…] -> [b,f,…]
  weight_gradient,  ///< [f,b,…] x [i,o,…] -> [f,b,…]
};
struct Convolution {
  ConvolutionLayout layout = ConvolutionLayout::forward;
  // One number per spatial dimension each.
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

/// Elements of `x` along `dim` at the 1-D `indices` (index_select).
Value take(const Value& x, const Value& indices, std::int64_t dim);
/// For each row of `indices` [n, k], the slice of `x` at these first `k`
/// coordinates: [n, rest of x].
Value take_at(const Value& x, const Value& indices);

enum class Scatter : std::uint8_t { set, add, maximum, minimum, multiply };
/// Returns `x` after each of the n slices in `updates` [n, rest of x] has been
/// combined, as `how` says, with the slice of `x` whose first `k` coordinates
/// are the matching row of `indices` [n, k].
Value put_at(
    Scatter mode, const Value& x, const Value& indices, const Value& updates);

// ---- random numbers ----

/// Bits of `type` (u32 or u64) that depend on the two numbers only.
Value random_bits(
    const Value& seed,
    const Value& offset,
    ElementType type,
    const Shape& shape);

/// The part of `op`'s name that a person knows, for messages.
std::string_view name_of(Op op);

}  // namespace accelerate::xla
