// SPDX-License-Identifier: Apache-2.0
#include "device/lazy_tensor.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class LazyTensor : public testing::Test {
 protected:
  at::Tensor make() {
    return lazy_tensor({2, 3}, at::kFloat, at::kCPU, [this] {
      ++computed;
      return values.mul(2);
    });
  }

  int computed = 0;
  at::Tensor values = at::arange(6, at::kFloat).view({2, 3});
};

TEST_F(LazyTensor, KnowsItsPropertiesWithoutComputing) {
  const at::Tensor lazy = make();

  EXPECT_EQ(lazy.sizes(), values.sizes());
  EXPECT_EQ(lazy.strides(), values.strides());
  EXPECT_EQ(lazy.scalar_type(), at::kFloat);
  EXPECT_TRUE(lazy.is_cpu());
  EXPECT_TRUE(lazy.defined());
  EXPECT_EQ(computed, 0);
}

TEST_F(LazyTensor, IsComputedByTheFirstOperatorOnly) {
  const at::Tensor lazy = make();

  EXPECT_EQ(lazy.sum().item<float>(), 30);
  EXPECT_TRUE(lazy.argmax(-1).equal(values.argmax(-1)));
  EXPECT_TRUE(lazy.view({6}).narrow(0, 1, 2).equal(at::tensor({2.0F, 4.0F})));
  EXPECT_EQ(lazy[1][2].item<float>(), 10);
  EXPECT_TRUE(at::equal(values, lazy.div(2)));
  EXPECT_EQ(computed, 1);
}

TEST_F(LazyTensor, IsReadInListsAndAsAnIndex) {
  const at::Tensor lazy = make();

  EXPECT_TRUE(at::cat({values, lazy}).equal(at::cat({values, values.mul(2)})));
  EXPECT_TRUE(
      at::stack({lazy, lazy}).equal(at::stack({values.mul(2), values.mul(2)})));
  const at::Tensor index =
      lazy_tensor({2}, at::kLong, at::kCPU, [] { return at::tensor({1, 0}); });
  EXPECT_TRUE(values.index({index}).equal(values.flip(0)));
  EXPECT_EQ(computed, 1);
}

TEST_F(LazyTensor, IsCopiedPrintedAndWritten) {
  const at::Tensor lazy = make();

  EXPECT_TRUE(lazy.clone().equal(values.mul(2)));
  EXPECT_TRUE(at::empty({2, 3}).copy_(lazy).equal(values.mul(2)));
  std::ostringstream text;
  text << lazy;
  EXPECT_THAT(text.str(), HasSubstr("6   8  10"));
  lazy.mul_(10);
  EXPECT_EQ(lazy.sum().item<float>(), 300);
  EXPECT_EQ(computed, 1);
}

TEST_F(LazyTensor, TakesPartInBackward) {
  values.requires_grad_();
  const at::Tensor lazy = make();
  {
    const at::NoGradGuard metrics_do_not_need_gradients;
    EXPECT_EQ(lazy.sum().item<float>(), 30);
  }

  lazy.pow(2).sum().backward();

  EXPECT_TRUE(values.grad().equal(values.detach().mul(8)));
  EXPECT_EQ(computed, 1);
}

TEST_F(LazyTensor, ThrowsTheErrorOfTheComputationAndTriesAgain) {
  int calls = 0;
  const at::Tensor lazy = lazy_tensor({1}, at::kFloat, at::kCPU, [&] {
    if (++calls == 1) {
      throw StateError("the values are gone");
    }
    return at::ones({1});
  });

  EXPECT_THAT(
      [&] { return lazy.add(1); },
      ThrowsMessage<StateError>("the values are gone"));
  EXPECT_EQ(lazy.add(1).item<float>(), 2);
}

TEST_F(LazyTensor, RefusesItsDataPointer) {
  const at::Tensor lazy = make();
  const std::string problem =
      "computed when an operator reads it, so it has no data pointer";

  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(
        [&] { return lazy.const_data_ptr(); },
        ThrowsMessage<c10::Error>(HasSubstr(problem)));
    EXPECT_THAT(
        [&] { return lazy.mutable_data_ptr(); },
        ThrowsMessage<c10::Error>(HasSubstr(problem)));
    EXPECT_EQ(lazy.sum().item<float>(), 30);
  }
}

TEST_F(LazyTensor, BecomesANormalTensorByNewData) {
  const at::Tensor lazy = make();

  lazy.set_data(at::ones({2, 3}));

  EXPECT_EQ(lazy.sum().item<float>(), 6);
}

}  // namespace
}  // namespace accelerate
