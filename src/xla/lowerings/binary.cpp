// SPDX-License-Identifier: Apache-2.0
// Operators on two or three tensors, element by element: arithmetic,
// comparisons, and the fused forms that optimizers use.
#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

using BinaryFunction = std::function<Value(const Value&, const Value&)>;

struct BinaryRow {
  const char* name;
  Op op;
};

// Arguments 0 and 1, in the type they are promoted to.
constexpr BinaryRow kPromotedRows[] = {
    {"mul.Tensor", Op::multiply},
    {"maximum", Op::maximum},
    {"minimum", Op::minimum},
    {"bitwise_and.Tensor", Op::logical_and},
    {"bitwise_or.Tensor", Op::logical_or},
    {"bitwise_xor.Tensor", Op::logical_xor},
    {"fmod.Tensor", Op::remainder},
    {"fmod.Scalar", Op::remainder},
};

struct CompareRow {
  const char* name;
  Compare direction;
};

constexpr CompareRow kCompareRows[] = {
    {"eq", Compare::eq},
    {"ne", Compare::ne},
    {"lt", Compare::lt},
    {"le", Compare::le},
    {"gt", Compare::gt},
    {"ge", Compare::ge},
};

struct LogicalRow {
  const char* name;
  Op op;
};

constexpr LogicalRow kLogicalRows[] = {
    {"logical_and", Op::logical_and},
    {"logical_or", Op::logical_or},
    {"logical_xor", Op::logical_xor},
};

Lowering of_promoted(const char* name, BinaryFunction make) {
  return {name, [make = std::move(make)](Call& call) {
            const ElementType type = call.promoted({0, 1});
            call.result(make(call.value(0, type), call.value(1, type)));
          }};
}

Lowering of_promoted_float(const char* name, BinaryFunction make) {
  return {name, [make = std::move(make)](Call& call) {
            const ElementType type = float_type(call.promoted({0, 1}));
            call.result(make(call.value(0, type), call.value(1, type)));
          }};
}

bool is_one(const c10::IValue& number) {
  return number.toScalar().toDouble() == 1.0;
}

// `value` times argument `i`, unless that is 1.
Value scaled(const Call& call, std::size_t i, const Value& value) {
  return is_one(call.argument(i)) ? value
                                  : mul(value, call.value(i, value->type));
}

// add, sub and rsub: `a + alpha * b` and the like.
Lowering with_alpha(const char* name, Op op, bool swapped = false) {
  return {name, [op, swapped](Call& call) {
            const ElementType type = call.promoted({0, 1});
            const Value a = call.value(0, type);
            const Value b = call.value(1, type);
            if (swapped) {
              call.result(binary(op, b, scaled(call, 2, a)));
            } else {
              const Op logical = type == ElementType::pred && op == Op::add
                                     ? Op::logical_or
                                     : op;
              call.result(binary(logical, a, scaled(call, 2, b)));
            }
          }};
}

// Python's modulo: the result has the sign of the divisor.
Value modulo(const Value& a, const Value& b) {
  const Value rest = binary(Op::remainder, a, b);
  const Value zero = constant_like(0, rest);
  const Value differs = compare(
      Compare::ne,
      compare(Compare::lt, rest, zero),
      compare(Compare::lt, b, zero));
  const Value needs_step =
      binary(Op::logical_and, differs, compare(Compare::ne, rest, zero));
  return select(needs_step, add(rest, b), rest);
}

Value floored_quotient(const Value& a, const Value& b) {
  if (is_floating(a->type)) {
    return unary(Op::floor, divide(a, b));
  }
  return divide(sub(a, modulo(a, b)), b);
}

Value truncated_quotient(const Value& a, const Value& b) {
  const Value quotient = divide(a, b);
  if (!is_floating(a->type)) {
    return quotient;
  }
  return select(
      compare(Compare::lt, quotient, constant_like(0, quotient)),
      unary(Op::ceil, quotient),
      unary(Op::floor, quotient));
}

void divide_with_rounding(Call& call) {
  const bool rounded = !call.is_none(2);
  const ElementType promoted = call.promoted({0, 1});
  const ElementType type = rounded ? promoted : float_type(promoted);
  const Value a = call.value(0, type);
  const Value b = call.value(1, type);
  if (!rounded) {
    call.result(divide(a, b));
  } else if (call.text(2) == "floor") {
    call.result(floored_quotient(a, b));
  } else {
    call.result(truncated_quotient(a, b));
  }
}

// Small whole exponents and 0.5 avoid the slow general power.
Value power_of(const Value& x, double exponent) {
  if (exponent == 2) {
    return square(x);
  }
  if (exponent == 3) {
    return mul(x, square(x));
  }
  if (is_floating(x->type) && exponent == 0.5) {
    return sqrt(x);
  }
  if (is_floating(x->type) && exponent == -0.5) {
    return unary(Op::rsqrt, x);
  }
  return binary(Op::power, x, constant_like(exponent, x));
}

void power_with_scalar(Call& call) {
  const ElementType type = call.promoted({0, 1});
  call.result(power_of(call.value(0, type), call.number(1)));
}

void clamp(Call& call) {
  std::vector<std::size_t> positions{0};
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!call.is_none(i)) {
      positions.push_back(i);
    }
  }
  const ElementType type = call.promoted(positions);
  Value x = call.value(0, type);
  if (!call.is_none(1)) {
    x = maximum(x, call.value(1, type));
  }
  if (!call.is_none(2)) {
    x = minimum(x, call.value(2, type));
  }
  call.result(x);
}

// A NaN in x stays: maximum and minimum pass it on.
Lowering one_sided_clamp(const char* name, Op op) {
  return {name, [op](Call& call) {
            const ElementType type = call.promoted({0, 1});
            call.result(binary(op, call.value(0, type), call.value(1, type)));
          }};
}

void where(Call& call) {
  const ElementType type = call.promoted({1, 2});
  call.result(select(
      call.value(0, ElementType::pred),
      call.value(1, type),
      call.value(2, type)));
}

void masked_fill(Call& call) {
  const ElementType type = call.type(0);
  const Value x = call.value(0);
  call.result(select(call.value(1, ElementType::pred), call.value(2, type), x));
}

// x + number * (a op b): addcmul and addcdiv.
Lowering fused_product(const char* name, Op op) {
  return {name, [op](Call& call) {
            const ElementType type = call.promoted({0, 1, 2});
            const Value product =
                binary(op, call.value(1, type), call.value(2, type));
            call.result(add(call.value(0, type), scaled(call, 3, product)));
          }};
}

// a + weight * (b - a), in the form that is exact at weight 1 (as on the CPU).
Value interpolated(const Value& a, const Value& b, const Value& weight) {
  const Value difference = sub(b, a);
  const Value near_a = add(a, mul(weight, difference));
  const Value rest = sub(constant_like(1, weight), weight);
  const Value near_b = sub(b, mul(difference, rest));
  return select(
      compare(Compare::lt, unary(Op::abs, weight), constant_like(0.5, weight)),
      near_a,
      near_b);
}

// a log(b), or 0 wherever a is 0, unless b is NaN.
Value x_log_y(const Value& a, const Value& b) {
  const Value product = mul(a, log(b));
  const Value zero = constant_like(0, product);
  const Value is_zero = binary(
      Op::logical_and,
      compare(Compare::eq, a, zero),
      compare(Compare::eq, b, b));
  return select(is_zero, zero, product);
}

void lerp(Call& call) {
  const ElementType type = call.type(0);
  call.result(interpolated(
      call.value(0, type), call.value(1, type), call.value(2, type)));
}

}  // namespace

Lowerings binary_lowerings() {
  Lowerings rows;
  for (const BinaryRow& row : kPromotedRows) {
    rows.push_back(
        of_promoted(row.name, [op = row.op](const Value& a, const Value& b) {
          const bool booleans =
              a->type == ElementType::pred && op == Op::multiply;
          return binary(booleans ? Op::logical_and : op, a, b);
        }));
  }
  for (const CompareRow& row : kCompareRows) {
    for (const char* overload : {".Tensor", ".Scalar"}) {
      const std::string name = std::string(row.name) + overload;
      rows.push_back(of_promoted(
          name.c_str(),
          [direction = row.direction](const Value& a, const Value& b) {
            return compare(direction, a, b);
          }));
    }
  }
  for (const LogicalRow& row : kLogicalRows) {
    rows.push_back({row.name, [op = row.op](Call& call) {
                      call.result(binary(
                          op,
                          call.value(0, ElementType::pred),
                          call.value(1, ElementType::pred)));
                    }});
  }
  rows.push_back(with_alpha("add.Tensor", Op::add));
  rows.push_back(with_alpha("sub.Tensor", Op::subtract));
  rows.push_back(with_alpha("rsub.Tensor", Op::subtract, /*swapped=*/true));
  rows.push_back(with_alpha("rsub.Scalar", Op::subtract, /*swapped=*/true));
  rows.push_back(of_promoted_float("div.Tensor", divide));
  rows.push_back({"div.Tensor_mode", divide_with_rounding});
  rows.push_back(of_promoted("floor_divide", floored_quotient));
  rows.push_back(of_promoted("remainder.Tensor", modulo));
  rows.push_back(of_promoted("remainder.Scalar", modulo));
  rows.push_back(of_promoted_float("atan2", [](const Value& a, const Value& b) {
    return binary(Op::atan2, a, b);
  }));
  for (const char* name :
       {"xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self"}) {
    rows.push_back(of_promoted_float(name, x_log_y));
  }
  rows.push_back({"pow.Tensor_Scalar", power_with_scalar});
  rows.push_back(of_promoted(
      "pow.Tensor_Tensor",
      [](const Value& a, const Value& b) { return binary(Op::power, a, b); }));
  rows.push_back(of_promoted("pow.Scalar", [](const Value& a, const Value& b) {
    return binary(Op::power, a, b);
  }));
  rows.push_back({"clamp", clamp});
  rows.push_back({"clamp.Tensor", clamp});
  rows.push_back(one_sided_clamp("clamp_min", Op::maximum));
  rows.push_back(one_sided_clamp("clamp_min.Tensor", Op::maximum));
  rows.push_back(one_sided_clamp("clamp_max", Op::minimum));
  rows.push_back(one_sided_clamp("clamp_max.Tensor", Op::minimum));
  rows.push_back({"where.self", where});
  rows.push_back({"masked_fill.Scalar", masked_fill});
  rows.push_back({"masked_fill.Tensor", masked_fill});
  rows.push_back(fused_product("addcmul", Op::multiply));
  rows.push_back(fused_product("addcdiv", Op::divide));
  rows.push_back({"lerp.Scalar", lerp});
  rows.push_back({"lerp.Tensor", lerp});
  return rows;
}

}  // namespace accelerate::xla
