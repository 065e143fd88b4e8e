// SPDX-License-Identifier: Apache-2.0
// Random numbers. The bits depend on the generator's state alone, so the same
// seed gives the same numbers on any number of devices.
#include <numbers>

#include "xla/device/generator.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

std::optional<at::Generator> generator_at(const Call& call, std::size_t i) {
  return i < call.size() && !call.is_none(i)
             ? std::optional(call.argument(i).toGenerator())
             : std::nullopt;
}

// Numbers in [0, 1) with the precision of the type: 24 or 53 random bits.
Value uniform(
    const std::optional<at::Generator>& generator,
    ElementType type,
    const Shape& shape) {
  const bool is_double = type == ElementType::f64;
  const ElementType word = is_double ? ElementType::u64 : ElementType::u32;
  const Value bits = next_random_bits(generator, word, shape);
  const Value high =
      binary(Op::shift_right, bits, constant(is_double ? 11 : 8, word));
  const ElementType carrier = is_double ? type : ElementType::f32;
  return times(is_double ? 0x1p-53 : 0x1p-24, convert(high, carrier));
}

// The inverse of the normal distribution at uniform numbers, which are shifted
// away from 0 and 1.
Value normal(
    const std::optional<at::Generator>& generator,
    ElementType type,
    const Shape& shape) {
  const Value u = uniform(generator, type, shape);
  const double half_step = type == ElementType::f64 ? 0x1p-54 : 0x1p-25;
  const Value centered =
      sub(times(2, add(u, constant_like(half_step, u))), constant_like(1, u));
  return times(std::numbers::sqrt2, unary(Op::erf_inv, centered));
}

// uniform_(self, from, to, generator)
void uniform_in_place(Call& call) {
  const double from = call.number(1);
  const Value u =
      uniform(generator_at(call, 3), call.type(0), shape_of(call.tensor(0)));
  call.result(add(times(call.number(2) - from, u), constant_like(from, u)));
}

// normal_(self, mean, std, generator)
void normal_in_place(Call& call) {
  const Value z =
      normal(generator_at(call, 3), call.type(0), shape_of(call.tensor(0)));
  call.result(add(times(call.number(2), z), constant_like(call.number(1), z)));
}

Value bernoulli(
    const std::optional<at::Generator>& generator,
    double probability,
    const Shape& shape) {
  const Value u = uniform(generator, ElementType::f32, shape);
  return compare(Compare::lt, u, constant_like(probability, u));
}

// bernoulli_.float(self, p, generator) and bernoulli.p
void bernoulli_with_number(Call& call) {
  call.result(convert(
      bernoulli(
          generator_at(call, 2), call.number(1), shape_of(call.tensor(0))),
      call.type(0)));
}

void bernoulli_of_tensor(
    Call& call, std::size_t probabilities, std::size_t generator) {
  const Value u = uniform(
      generator_at(call, generator),
      ElementType::f32,
      shape_of(call.tensor(0)));
  call.result(convert(
      compare(Compare::lt, u, call.value(probabilities, ElementType::f32)),
      call.type(0)));
}

// native_dropout(input, p, train) -> (output, mask)
void dropout(Call& call) {
  const Value x = call.value(0);
  const double p = call.number(1);
  const bool training = call.is_none(2) || call.flag(2);
  if (!training || p == 0) {
    call.result(x);
    call.result(constant(1, ElementType::pred, x->shape));
    return;
  }
  const Value kept = bernoulli(std::nullopt, 1 - p, x->shape);
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  call.result(select(kept, times(scale, x), constant_like(0, x)));
  call.result(kept);
}

// native_dropout_backward(grad, mask, scale)
void dropout_gradient(Call& call) {
  const Value gradient = call.value(0);
  call.result(select(
      call.value(1),
      times(call.number(2), gradient),
      constant_like(0, gradient)));
}

// random_.from(self, from, to, generator): integers in [from, to).
void random_integers(Call& call, std::int64_t from, std::int64_t to) {
  const Value bits = next_random_bits(
      generator_at(call, call.size() - 1),
      ElementType::u64,
      shape_of(call.tensor(0)));
  const Value range = constant_integer(to - from, ElementType::u64);
  const Value offset =
      convert(binary(Op::remainder, bits, range), ElementType::i64);
  call.result(convert(
      add(offset, constant_integer(from, ElementType::i64)), call.type(0)));
}

// randperm.generator_out(n, generator, out): sorts positions by random keys.
void permutation(Call& call) {
  const Shape shape{call.integer(0)};
  const Value keys =
      next_random_bits(generator_at(call, 1), ElementType::u64, shape);
  call.result(sort(keys, iota(ElementType::i64, shape, 0), 0, false).second);
}

}  // namespace

Lowerings random_lowerings() {
  return {
      {"uniform_", uniform_in_place},
      {"normal_", normal_in_place},
      {"bernoulli_.float", bernoulli_with_number},
      {"bernoulli.p", bernoulli_with_number},
      {"bernoulli", [](Call& call) { bernoulli_of_tensor(call, 0, 1); }},
      {"bernoulli_.Tensor",
       [](Call& call) { bernoulli_of_tensor(call, 1, 2); }},
      {"native_dropout", dropout},
      {"native_dropout_backward", dropout_gradient},
      {"random_.from",
       [](Call& call) {
         random_integers(call, call.integer(1), call.integer(2));
       }},
      {"random_.to",
       [](Call& call) { random_integers(call, 0, call.integer(1)); }},
      {"randperm.generator_out", permutation},
  };
}

}  // namespace accelerate::xla
