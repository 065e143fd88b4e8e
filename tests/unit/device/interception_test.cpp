// SPDX-License-Identifier: Apache-2.0
#include "device/interception.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn.h>
#include <torch/serialize.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

/// Records the names of the operators.
class Record : public Interceptor {
 public:
  void intercept(InterceptedCall& call) override {
    names.push_back(call.name());
    call.proceed();
  }

  std::vector<std::string> names;
};

/// Passes operators a value in place of the tensor's value, as a sharded tensor
/// that is gathered on use would.
class Supply : public Interceptor {
 public:
  explicit Supply(at::Tensor value) : value_(std::move(value)) {}

  void intercept(InterceptedCall& call) override {
    if (call.name() == "aten::linear") {
      call.set_result(at::linear(call.arguments()[0].toTensor(), value_));
    } else {
      call.proceed();
    }
  }

 private:
  at::Tensor value_;
};

TEST(Interception, SeesTheOperatorsOfATensorAndItsViews) {
  const auto record = std::make_shared<Record>();
  const at::Tensor tensor = at::ones({2, 3});
  mark(tensor, record);

  const at::Tensor sum = tensor.add(1);
  EXPECT_THAT(record->names, Contains("aten::add"));
  record->names.clear();
  const at::Tensor row = tensor.select(0, 0).detach();
  record->names.clear();
  EXPECT_EQ(row.mul(2).sum().item<float>(), 6);
  EXPECT_THAT(record->names, Contains("aten::mul"));
  EXPECT_THAT(record->names, Not(Contains("aten::sum")));

  record->names.clear();
  EXPECT_EQ(sum.sum().item<float>(), 12);
  EXPECT_THAT(record->names, IsEmpty());
}

TEST(Interception, SeesTheOperatorThatAModuleCallsBeforeItsParts) {
  const auto record = std::make_shared<Record>();
  torch::nn::BatchNorm1d norm(3);
  mark(norm->running_mean, record);

  norm(at::randn({4, 3}));

  ASSERT_THAT(record->names, Not(IsEmpty()));
  EXPECT_EQ(record->names.front(), "aten::batch_norm");
}

TEST(Interception, SeesListsOfTensors) {
  const auto record = std::make_shared<Record>();
  const at::Tensor tensor = at::ones({2});
  mark(tensor, record);

  EXPECT_EQ(at::cat({at::zeros({1}), tensor}).sum().item<float>(), 2);
  EXPECT_THAT(record->names, Contains("aten::cat"));
}

TEST(Interception, KeepsValuesIdentityAndGradient) {
  torch::nn::Linear linear(3, 2);
  const at::Tensor before = linear->weight.detach().clone();
  auto* const impl = linear->weight.unsafeGetTensorImpl();
  const void* const memory = linear->weight.data_ptr();

  mark(linear->weight, std::make_shared<Record>());
  linear(at::ones({1, 3})).sum().backward();

  EXPECT_EQ(linear->named_parameters()["weight"].unsafeGetTensorImpl(), impl);
  EXPECT_EQ(linear->weight.data_ptr(), memory);
  EXPECT_TRUE(linear->weight.requires_grad() && linear->weight.is_leaf());
  EXPECT_TRUE(at::equal(linear->weight, before));
  EXPECT_TRUE(at::equal(linear->weight.grad(), at::ones({2, 3})));
}

TEST(Interception, ReplacesTheResultOfAnOperator) {
  const at::Tensor weight = at::zeros({2, 3}).requires_grad_();
  const at::Tensor value = at::full({2, 3}, 5.0).requires_grad_();
  mark(weight, std::make_shared<Supply>(value));

  const at::Tensor result = at::linear(at::ones({1, 3}), weight);
  result.sum().backward();

  EXPECT_TRUE(at::equal(result, at::full({1, 2}, 15.0)));
  EXPECT_TRUE(at::equal(value.grad(), at::ones({2, 3})));
  EXPECT_FALSE(weight.grad().defined());
}

TEST(Interception, RunsEachInterceptorOfACallOnce) {
  const auto first = std::make_shared<Record>();
  const auto second = std::make_shared<Record>();
  const at::Tensor a = at::ones({2});
  const at::Tensor b = at::ones({2});
  const at::Tensor c = at::ones({2});
  mark(a, first);
  mark(b, second);
  mark(c, first);

  EXPECT_EQ(at::cat({a, b, c}).sum().item<float>(), 6);

  EXPECT_THAT(first->names, ElementsAre("aten::cat"));
  EXPECT_THAT(second->names, ElementsAre("aten::cat"));
}

TEST(Interception, SurvivesReplacedData) {
  const auto record = std::make_shared<Record>();
  torch::nn::Linear linear(3, 2);
  mark(linear->weight, record);

  linear->to(at::kDouble);
  EXPECT_EQ(interceptor_of(linear->weight), record.get());
  EXPECT_EQ(linear->weight.scalar_type(), at::kDouble);

  std::stringstream file;
  torch::nn::Linear saved(3, 2);
  saved->to(at::kDouble);
  torch::save(saved, file);
  torch::load(linear, file);
  EXPECT_EQ(interceptor_of(linear->weight), record.get());
  EXPECT_TRUE(at::equal(linear->weight, saved->weight));

  record->names.clear();
  linear(at::ones({1, 3}, at::kDouble));
  EXPECT_THAT(record->names, Contains("aten::t"));
}

TEST(Interception, ANewMarkReplacesTheOldOne) {
  const auto first = std::make_shared<Record>();
  const auto second = std::make_shared<Record>();
  const at::Tensor tensor = at::ones({2});
  mark(tensor, first);
  mark(tensor, second);

  tensor.add_(1);

  EXPECT_THAT(first->names, IsEmpty());
  EXPECT_THAT(second->names, Not(IsEmpty()));
}

TEST(Interception, AnErrorOfTheInterceptorIsTheOperatorsError) {
  class Refuse : public Interceptor {
    void intercept(InterceptedCall& call) override {
      throw UnsupportedError("refused " + call.name());
    }
  };
  const at::Tensor tensor = at::ones({2});
  mark(tensor, std::make_shared<Refuse>());

  EXPECT_THROW(tensor.add(1), UnsupportedError);
}

}  // namespace
}  // namespace accelerate
