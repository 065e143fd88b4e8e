// SPDX-License-Identifier: Apache-2.0
#include "support/plain_collectives.h"

#include <stdexcept>

#include "base/str_cat.h"

namespace accelerate {

using Op = c10d::ReduceOp;

at::Tensor input_of(int rank, at::ScalarType type, std::int64_t count) {
  // Small values that differ between ranks and positions; sums and products of
  // five ranks are exact even in the narrowest types.
  const auto index = at::arange(count, at::kLong);
  if (type == at::kBool) {
    return index.add(rank).remainder(3).eq(0);
  }
  const auto integers =
      index.mul(7).add(3 * rank).remainder(5).sub(type == at::kByte ? 0 : 2);
  return at::isFloatingType(type) ? integers.to(at::kDouble).mul(0.5).to(type)
                                  : integers.to(type);
}

at::Tensor plain_reduce(
    const std::vector<at::Tensor>& tensors, Op::RedOpType op) {
  const at::ScalarType type = tensors.front().scalar_type();
  const bool narrow = type == at::kHalf || type == at::kBFloat16;
  const auto widen = [&](const at::Tensor& t) {
    return narrow ? t.to(at::kFloat) : t;
  };
  at::Tensor result = widen(tensors.front()).clone();
  for (std::size_t r = 1; r < tensors.size(); ++r) {
    const at::Tensor next = widen(tensors[r]);
    if (op == Op::MIN) {
      result = at::minimum(result, next);
    } else if (op == Op::MAX) {
      result = at::maximum(result, next);
    } else if (op == Op::PRODUCT) {
      result = result.mul(next);
    } else {
      result = result.add(next);
    }
  }
  if (op == Op::AVG) {
    const auto ranks = static_cast<std::int64_t>(tensors.size());
    result = at::isFloatingType(type) ? result.div(ranks)
                                      : result.div(ranks, "trunc");
  }
  return result.to(type);
}

const std::vector<at::ScalarType>& promised_types() {
  static const std::vector<at::ScalarType> types = {
      at::kDouble,
      at::kFloat,
      at::kBFloat16,
      at::kHalf,
      at::kLong,
      at::kInt,
      at::kByte,
      at::kBool};
  return types;
}

const std::vector<Op::RedOpType>& promised_operations() {
  static const std::vector<Op::RedOpType> operations = {
      Op::SUM, Op::AVG, Op::PRODUCT, Op::MIN, Op::MAX};
  return operations;
}

bool gloo_can(at::ScalarType type, Op::RedOpType op) {
  return type != at::kBool && (op != Op::AVG || at::isFloatingType(type));
}

std::string name_of_operation(Op::RedOpType op) {
  switch (op) {
    case Op::SUM:
      return "sum";
    case Op::AVG:
      return "avg";
    case Op::PRODUCT:
      return "product";
    case Op::MIN:
      return "min";
    case Op::MAX:
      return "max";
    default:
      return "other";
  }
}

void expect_equal(
    const at::Tensor& actual,
    const at::Tensor& expected,
    const std::string& title) {
  if (actual.sizes() != expected.sizes() ||
      actual.scalar_type() != expected.scalar_type()) {
    throw std::runtime_error(str_cat(
        title,
        ": got ",
        actual.scalar_type(),
        actual.sizes(),
        ", expected ",
        expected.scalar_type(),
        expected.sizes()));
  }
  if (!at::equal(actual, expected)) {
    const auto wrong = actual.ne(expected).nonzero();
    throw std::runtime_error(str_cat(
        title,
        ": ",
        wrong.size(0),
        " of ",
        actual.numel(),
        " elements are wrong, the first at ",
        wrong[0].item<std::int64_t>()));
  }
}

std::vector<at::Tensor> inputs_of_all(
    int size, at::ScalarType type, std::int64_t count) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < size; ++rank) {
    inputs.push_back(input_of(rank, type, count));
  }
  return inputs;
}

bool can_reduce(const Group& group, at::ScalarType type, Op::RedOpType op) {
  if (group.backend_name() == "gloo") {
    return gloo_can(type, op);
  }
  return type != at::kBool || op != Op::AVG;
}

}  // namespace accelerate
