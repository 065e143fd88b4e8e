// SPDX-License-Identifier: Apache-2.0
// Operators on one tensor, element by element.
#include <cmath>
#include <limits>

#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

struct UnaryRow {
  const char* name;
  Op op;
};

// Integers and booleans become f32.
constexpr UnaryRow kFloatRows[] = {
    {"exp", Op::exponential},
    {"expm1", Op::exponential_minus_one},
    {"log", Op::log},
    {"log1p", Op::log_plus_one},
    {"sqrt", Op::sqrt},
    {"rsqrt", Op::rsqrt},
    {"sin", Op::sine},
    {"cos", Op::cosine},
    {"tan", Op::tan},
    {"tanh", Op::tanh},
    {"sigmoid", Op::logistic},
    {"erf", Op::erf},
    {"erfinv", Op::erf_inv},
    {"lgamma", Op::lgamma},
    {"digamma", Op::digamma},
};

// The type stays the same; these operators do not change integers.
constexpr UnaryRow kRoundingRows[] = {
    {"ceil", Op::ceil},
    {"floor", Op::floor},
    {"round", Op::round},
};

constexpr UnaryRow kSameTypeRows[] = {
    {"neg", Op::negate},
    {"bitwise_not", Op::logical_not},
};

Value absolute(const Value& x) {
  const bool has_sign =
      x->type != ElementType::u8 && x->type != ElementType::pred;
  return has_sign ? unary(Op::abs, x) : x;
}

// The sign of NaN is 0 on the CPU, NaN in XLA.
Value sign(const Value& x) {
  if (x->type == ElementType::pred) {
    return x;
  }
  const Value zero = constant_like(0, x);
  const auto as_number = [&x](const Value& condition) {
    return convert(condition, x->type);
  };
  return sub(
      as_number(compare(Compare::gt, x, zero)),
      as_number(compare(Compare::lt, x, zero)));
}

Value truncated(const Value& x) {
  if (!is_floating(x->type)) {
    return x;
  }
  return select(
      compare(Compare::lt, x, constant_like(0, x)),
      unary(Op::ceil, x),
      unary(Op::floor, x));
}

Value is_equal(const Value& x, double number) {
  return is_floating(x->type)
             ? compare(Compare::eq, x, constant_like(number, x))
             : constant(0, ElementType::pred, x->shape);
}

Lowering of_float(const char* name, std::function<Value(const Value&)> make) {
  return {name, [make = std::move(make)](Call& call) {
            call.result(make(call.value(0, float_type(call.type(0)))));
          }};
}

Lowering of_any(const char* name, std::function<Value(const Value&)> make) {
  return {name, [make = std::move(make)](Call& call) {
            call.result(make(call.value(0)));
          }};
}

Value whole_number_kept(Op op, const Value& x) {
  return is_floating(x->type) ? unary(op, x) : x;
}

}  // namespace

Lowerings unary_lowerings() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Lowerings rows;
  for (const UnaryRow& row : kFloatRows) {
    rows.push_back(of_float(
        row.name, [op = row.op](const Value& x) { return unary(op, x); }));
  }
  for (const UnaryRow& row : kRoundingRows) {
    rows.push_back(of_any(row.name, [op = row.op](const Value& x) {
      return whole_number_kept(op, x);
    }));
  }
  for (const UnaryRow& row : kSameTypeRows) {
    rows.push_back(of_any(
        row.name, [op = row.op](const Value& x) { return unary(op, x); }));
  }
  rows.push_back(of_any("abs", absolute));
  rows.push_back(of_any("sign", sign));
  rows.push_back(of_any("sgn", sign));
  rows.push_back(of_any("trunc", truncated));
  rows.push_back(
      of_any("frac", [](const Value& x) { return sub(x, truncated(x)); }));
  rows.push_back(of_float("reciprocal", [](const Value& x) {
    return divide(constant_like(1, x), x);
  }));
  rows.push_back(of_float("log2", [](const Value& x) {
    return divide(log(x), constant_like(std::log(2.0), x));
  }));
  rows.push_back(of_float("log10", [](const Value& x) {
    return divide(log(x), constant_like(std::log(10.0), x));
  }));
  rows.push_back(of_float("erfc", [](const Value& x) {
    return sub(constant_like(1, x), unary(Op::erf, x));
  }));
  rows.push_back(of_any("logical_not", [](const Value& x) {
    return compare(Compare::eq, x, constant_like(0, x));
  }));
  rows.push_back(of_any(
      "isnan", [](const Value& x) { return compare(Compare::ne, x, x); }));
  rows.push_back(of_any("isinf", [](const Value& x) {
    return is_equal(absolute(x), kInfinity);
  }));
  rows.push_back(of_any(
      "isposinf", [](const Value& x) { return is_equal(x, kInfinity); }));
  rows.push_back(of_any(
      "isneginf", [](const Value& x) { return is_equal(x, -kInfinity); }));
  return rows;
}

}  // namespace accelerate::xla
