// SPDX-License-Identifier: Apache-2.0
// Short names for functions that most lowerings use.
#pragma once

#include "xla/graph/build.h"

namespace accelerate::xla {

inline Value add(const Value& a, const Value& b) {
  return binary(Op::add, a, b);
}
inline Value sub(const Value& a, const Value& b) {
  return binary(Op::subtract, a, b);
}
inline Value mul(const Value& a, const Value& b) {
  const bool booleans = a->type == ElementType::pred;
  return binary(booleans ? Op::logical_and : Op::multiply, a, b);
}
inline Value divide(const Value& a, const Value& b) {
  return binary(Op::divide, a, b);
}
inline Value maximum(const Value& a, const Value& b) {
  return binary(Op::maximum, a, b);
}
inline Value minimum(const Value& a, const Value& b) {
  return binary(Op::minimum, a, b);
}
inline Value exp(const Value& x) {
  return unary(Op::exponential, x);
}
inline Value log(const Value& x) {
  return unary(Op::log, x);
}
inline Value sqrt(const Value& x) {
  return unary(Op::sqrt, x);
}
inline Value negate(const Value& x) {
  return unary(Op::negate, x);
}
inline Value square(const Value& x) {
  return mul(x, x);
}

/// Returns a constant with the type of `like`.
inline Value constant_like(double number, const Value& like) {
  return constant(number, like->type);
}
inline Value zeros_like(const Value& like) {
  return constant(0, like->type, like->shape);
}
inline Value times(double number, const Value& x) {
  return mul(constant_like(number, x), x);
}

inline Value sum(const Value& x, const Dims& dims, bool keep = false) {
  return reduce(Op::add, x, dims, keep);
}
inline std::int64_t rank_of(const Value& x) {
  return static_cast<std::int64_t>(x->shape.size());
}
/// Returns the product of the sizes of the dimensions `dims` of `x`.
inline std::int64_t count_of(const Value& x, const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    count *= x->shape[static_cast<std::size_t>(dim)];
  }
  return count;
}
inline Value mean(const Value& x, const Dims& dims, bool keep = false) {
  return divide(
      sum(x, dims, keep),
      constant_like(static_cast<double>(count_of(x, dims)), x));
}
/// Returns `x` with a dimension of size 1 inserted at `dim`.
inline Value unsqueeze(const Value& x, std::int64_t dim) {
  Shape shape = x->shape;
  shape.insert(shape.begin() + dim, 1);
  return reshape(x, shape);
}
/// Returns the dimensions from `first` up to, but not including, `last`.
inline Dims range_of_dims(std::int64_t first, std::int64_t last) {
  Dims dims;
  for (std::int64_t dim = first; dim < last; ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

}  // namespace accelerate::xla
