// SPDX-License-Identifier: Apache-2.0
// Operators that fill tensors and make sequences.
#include <cmath>

#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// A tensor without dimensions is often a number that changes from step to step,
// such as the learning rate of a fused optimizer; 0 and 1 usually do not
// change.
bool may_change(const Shape& shape, const c10::Scalar& number) {
  return shape.empty() && number.isFloatingPoint() && number.toDouble() != 0 &&
         number.toDouble() != 1;
}

// Any other filled tensor is a constant of the program: zeroed gradients and
// masks are known when it is compiled.
void fill_with_number(Call& call) {
  const ElementType type = call.type(0);
  const Shape shape = shape_of(call.tensor(0));
  const c10::Scalar number = call.argument(1).toScalar();
  if (may_change(shape, number)) {
    call.result(scalar(number.toDouble(), type));
    return;
  }
  call.result(
      number.isIntegral(/*includeBool=*/true)
          ? constant_integer(number.toLong(), type, shape)
          : constant(number.toDouble(), type, shape));
}

void fill_with_tensor(Call& call) {
  call.result(broadcast(call.value(1, call.type(0)), shape_of(call.tensor(0))));
}

void zero(Call& call) {
  call.result(constant(0, call.type(0), shape_of(call.tensor(0))));
}

// arange.start_out(start, end, step, out): PyTorch creates `out` with the right
// type; its length follows from the numbers.
void arange(Call& call) {
  const ElementType type =
      element_type_of(call.argument(3).toTensor().scalar_type());
  const double start = call.number(0);
  const double step = call.number(2);
  const auto count =
      static_cast<std::int64_t>(std::ceil((call.number(1) - start) / step));
  call.result(
      add(mul(iota(type, {count}, 0), constant(step, type)),
          constant(start, type)));
}

void identity_matrix(Call& call, const Shape& shape, ElementType type) {
  call.result(convert(
      compare(
          Compare::eq,
          iota(ElementType::i64, shape, 0),
          iota(ElementType::i64, shape, 1)),
      type));
}

}  // namespace

Lowerings creation_lowerings() {
  return {
      {"fill.Scalar", fill_with_number},
      {"fill.Tensor", fill_with_tensor},
      {"zero", zero},
      {"arange.start_out", arange},
      {"eye.m_out",
       [](Call& call) {
         identity_matrix(
             call,
             {call.integer(0), call.integer(1)},
             element_type_of(call.argument(2).toTensor().scalar_type()));
       }},
      {"eye.out",
       [](Call& call) {
         identity_matrix(
             call,
             {call.integer(0), call.integer(0)},
             element_type_of(call.argument(1).toTensor().scalar_type()));
       }},
  };
}

}  // namespace accelerate::xla
