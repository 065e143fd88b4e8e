// SPDX-License-Identifier: Apache-2.0
// Matmuls.
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

Value matmul(const Value& a, const Value& b) {
  return dot(a, b, {.contract_a = {1}, .contract_b = {0}});
}

Value batched_product(const Value& a, const Value& b) {
  return dot(
      a,
      b,
      {.batch_a = {0}, .batch_b = {0}, .contract_a = {2}, .contract_b = {1}});
}

Value vector_product(const Value& a, const Value& b) {
  return dot(a, b, {.contract_a = {0}, .contract_b = {0}});
}

Value matrix_vector_product(const Value& a, const Value& b) {
  return dot(a, b, {.contract_a = {1}, .contract_b = {0}});
}

Value outer_product(const Value& a, const Value& b) {
  return mul(unsqueeze(a, 1), unsqueeze(b, 0));
}

using Product = Value (*)(const Value&, const Value&);

struct ProductRow {
  const char* name;
  Product product;
};

constexpr ProductRow kProducts[] = {
    {"mm", matmul},
    {"bmm", batched_product},
    {"dot", vector_product},
    {"mv", matrix_vector_product},
};

// beta * self + alpha * (a x b)
constexpr ProductRow kAddedProducts[] = {
    {"addmm", matmul},
    {"baddbmm", batched_product},
    {"addmv", matrix_vector_product},
    {"addr", outer_product},
};

Value scaled(const Call& call, std::size_t i, const Value& value) {
  return call.number(i) == 1.0 ? value : mul(value, call.value(i, value->type));
}

void added_product(Call& call, Product product) {
  const Value result = scaled(call, 4, product(call.value(1), call.value(2)));
  // PyTorch ignores `self`, even NaN, if beta is 0.
  call.result(
      call.number(3) == 0.0
          ? result
          : add(result, scaled(call, 3, call.value(0, result->type))));
}

}  // namespace

Lowerings matmul_lowerings() {
  Lowerings rows;
  for (const ProductRow& row : kProducts) {
    rows.push_back({row.name, [product = row.product](Call& call) {
                      call.result(product(call.value(0), call.value(1)));
                    }});
  }
  for (const ProductRow& row : kAddedProducts) {
    rows.push_back({row.name, [product = row.product](Call& call) {
                      added_product(call, product);
                    }});
  }
  return rows;
}

}  // namespace accelerate::xla
