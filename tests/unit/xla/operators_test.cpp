// SPDX-License-Identifier: Apache-2.0
// Every operator of operator_cases.cpp next to the CPU: results, gradients,
// types and shapes, in strict mode.
#include <gtest/gtest.h>

#include "unit/xla/operator_cases.h"
#include "unit/xla/xla_device.h"

namespace accelerate::xla {
namespace {

struct Result {
  at::Tensor value;
  Tensors gradients;
};

struct Precision {
  at::ScalarType type;
  double tolerance;  ///< Relative to 1 + the largest element.
};

Tensors converted(const OperatorCase& made, at::ScalarType type, bool device) {
  Tensors inputs;
  for (const at::Tensor& input : made.inputs) {
    at::Tensor x = input.is_floating_point() ? input.to(type) : input;
    x = device ? to_xla(x) : x.clone();
    inputs.push_back(
        x.requires_grad_(made.differentiable && x.is_floating_point()));
  }
  return inputs;
}

// Weights that differ per element, so that a gradient cannot be right by
// chance.
at::Tensor weighted_sum(const at::Tensor& value) {
  const at::Tensor weights = at::arange(1, value.numel() + 1, at::kDouble)
                                 .div(static_cast<double>(value.numel()))
                                 .view(value.sizes())
                                 .to(value.options());
  return (value * weights).sum();
}

Result run_case(const OperatorCase& made, at::ScalarType type, bool device) {
  const Tensors inputs = converted(made, type, device);
  Result result;
  result.value = made.run(inputs);
  if (made.differentiable) {
    weighted_sum(result.value).backward();
    for (const at::Tensor& input : inputs) {
      if (input.grad().defined()) {
        result.gradients.push_back(input.grad());
      }
    }
  }
  return result;
}

void expect_close(
    const at::Tensor& device, const at::Tensor& expected, double tolerance) {
  ASSERT_TRUE(device.is_xla());
  EXPECT_EQ(device.sizes(), expected.sizes());
  ASSERT_EQ(device.scalar_type(), expected.scalar_type());
  const at::Tensor a = to_cpu(device).to(at::kDouble);
  const at::Tensor b = expected.to(at::kDouble);
  if (b.numel() == 0) {
    return;
  }
  const double scale = 1 + b.abs().max().item<double>();
  EXPECT_LE((a - b).abs().max().item<double>(), tolerance * scale)
      << "device " << a << "\nCPU " << b;
}

void compare_with_cpu(const OperatorCase& made, const Precision& precision) {
  const Result device = run_case(made, precision.type, true);
  const Result expected = run_case(made, precision.type, false);
  expect_close(device.value, expected.value, precision.tolerance);
  ASSERT_EQ(device.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    SCOPED_TRACE("gradient " + std::to_string(i));
    expect_close(
        device.gradients[i], expected.gradients[i], precision.tolerance);
  }
}

class XlaOperator : public testing::TestWithParam<OperatorCase> {};

TEST_P(XlaOperator, EqualsTheCpuInF64) {
  compare_with_cpu(GetParam(), {at::kDouble, 1e-12});
}

TEST_P(XlaOperator, EqualsTheCpuInF32) {
  compare_with_cpu(GetParam(), {at::kFloat, 1e-5});
}

std::string case_name(const testing::TestParamInfo<OperatorCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Elementwise,
    XlaOperator,
    testing::ValuesIn(elementwise_cases()),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    Reductions, XlaOperator, testing::ValuesIn(reduction_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(
    Layers, XlaOperator, testing::ValuesIn(layer_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(
    Indexing, XlaOperator, testing::ValuesIn(indexing_cases()), case_name);

}  // namespace
}  // namespace accelerate::xla
