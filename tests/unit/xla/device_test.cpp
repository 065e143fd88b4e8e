// SPDX-License-Identifier: Apache-2.0
// What LibTorch expects of a device: placement, views, in-place writes,
// autograd, random numbers, donation.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "unit/xla/xla_device.h"
#include "xla/device/tensors.h"

namespace accelerate::xla {
namespace {

using testing::HasSubstr;

bool equals(const at::Tensor& device, const at::Tensor& expected) {
  return to_cpu(device).equal(expected);
}

at::Tensor counted(at::IntArrayRef sizes) {
  const auto count = c10::multiply_integers(sizes);
  return at::arange(count, at::kFloat).view(sizes);
}

TEST(XlaDevice, MovesTensorsThereAndBack) {
  for (const auto type :
       {at::kFloat,
        at::kDouble,
        at::kHalf,
        at::kBFloat16,
        at::kLong,
        at::kInt,
        at::kShort,
        at::kChar,
        at::kByte,
        at::kBool}) {
    const at::Tensor tensor = counted({2, 3}).to(type);

    const at::Tensor moved = to_xla(tensor);

    EXPECT_EQ(moved.device(), c10::Device("xla:0"));
    EXPECT_TRUE(equals(moved, tensor)) << type;
  }
}

TEST(XlaDevice, KeepsScalarsAndEmptyTensors) {
  EXPECT_TRUE(equals(to_xla(at::tensor(3.0F)), at::tensor(3.0F)));
  EXPECT_TRUE(equals(to_xla(at::empty({0, 4})), at::empty({0, 4})));
  EXPECT_EQ(to_xla(at::tensor(7)).item<std::int64_t>(), 7);
}

// Checkpoints find tensors that share memory by their addresses.
TEST(XlaDevice, GivesEachStorageAddressesOfItsOwn) {
  const at::Tensor first = to_xla(counted({100}));
  const at::Tensor second = to_xla(counted({100}));
  const auto end_of = [](const at::Tensor& tensor) {
    return static_cast<const char*>(tensor.const_data_ptr()) + tensor.nbytes();
  };

  EXPECT_NE(first.const_data_ptr(), nullptr);
  EXPECT_LE(static_cast<const void*>(end_of(first)), second.const_data_ptr());
  EXPECT_EQ(first.detach().const_data_ptr(), first.const_data_ptr());
}

TEST(XlaDevice, NeedsNoNewProgramForAnotherLearningRate) {
  const at::Tensor x = to_xla(counted({3}));
  const at::Tensor rate = at::full({}, 0.5, x.options());
  const auto scaled = [&] { return to_cpu(x.mul(rate)); };
  EXPECT_TRUE(scaled().equal(counted({3}) * 0.5));
  const auto compiled = test_device().runner().counts().compiled;

  EXPECT_TRUE(scaled().equal(counted({3}) * 0.5));
  rate.fill_(0.25);
  EXPECT_TRUE(scaled().equal(counted({3}) * 0.25));

  EXPECT_EQ(test_device().runner().counts().compiled, compiled);
}

TEST(XlaDevice, RunsUpToACut) {
  at::Tensor parameter = to_xla(counted({4}));
  at::Tensor state = to_xla(counted({4}));
  state.mul_(3);
  parameter.add_(state);
  const at::Tensor later = parameter.mul(2);
  state.add_(later);
  const auto executed = test_device().runner().counts().executed;

  test_device().run_until(*cell_of(parameter).value);

  EXPECT_EQ(cell_of(parameter).value->op, Op::input);
  EXPECT_NE(cell_of(later).value->op, Op::input);
  EXPECT_EQ(test_device().runner().counts().executed, executed + 1);
  EXPECT_TRUE(equals(later, counted({4}) * 8));
  EXPECT_TRUE(equals(state, counted({4}) * 11));
  EXPECT_TRUE(equals(parameter, counted({4}) * 4));
  EXPECT_EQ(test_device().runner().counts().executed, executed + 2);
}

// The parts of the operation are results of one node.
TEST(XlaDevice, CutsAfterAnOperationWithSeveralResults) {
  const at::Tensor x = to_xla(counted({4}));
  const auto [values, indices] = x.sort(0, /*descending=*/true);
  const at::Tensor parameter = x.add(1);
  const at::Tensor later = values.add(indices);

  test_device().run_until(*cell_of(parameter).value);

  EXPECT_TRUE(equals(later, at::tensor({6.0F, 4.0F, 2.0F, 0.0F})));
  EXPECT_TRUE(equals(indices, at::tensor({3, 2, 1, 0}, at::kLong)));
}

TEST(XlaDevice, ConvertsTypes) {
  const at::Tensor x = to_xla(counted({4}));

  EXPECT_TRUE(equals(x.to(at::kLong), at::arange(4)));
  EXPECT_EQ(x.to(at::kBool).scalar_type(), at::kBool);
}

struct ViewCase {
  const char* name;
  at::Tensor (*view)(const at::Tensor&);
};

const ViewCase kViews[] = {
    {"Transpose", [](const at::Tensor& x) { return x.transpose(0, 1); }},
    {"Permute", [](const at::Tensor& x) { return x.permute({2, 0, 1}); }},
    {"Slice", [](const at::Tensor& x) { return x.slice(1, 1, 3); }},
    {"StridedSlice", [](const at::Tensor& x) { return x.slice(2, 0, 4, 2); }},
    {"Select", [](const at::Tensor& x) { return x.select(1, 2); }},
    {"SelectOfTranspose",
     [](const at::Tensor& x) { return x.transpose(0, 2).select(0, 1); }},
    {"View", [](const at::Tensor& x) { return x.view({6, 4}); }},
    {"Unsqueeze", [](const at::Tensor& x) { return x.unsqueeze(1); }},
    {"Diagonal", [](const at::Tensor& x) { return x.diagonal(0, 1, 2); }},
    {"Unfold", [](const at::Tensor& x) { return x.unfold(2, 2, 2); }},
    {"ChunkOfPermuted",
     [](const at::Tensor& x) { return x.permute({1, 0, 2}).chunk(3)[1]; }},
};

class XlaView : public testing::TestWithParam<ViewCase> {};

TEST_P(XlaView, ReadsTheElementsOfItsStorage) {
  const at::Tensor x = counted({2, 3, 4});

  EXPECT_TRUE(equals(GetParam().view(to_xla(x)), GetParam().view(x)));
}

TEST_P(XlaView, WritesIntoItsStorage) {
  const at::Tensor x = counted({2, 3, 4});
  const at::Tensor device = to_xla(x);
  const at::Tensor other_view = device.view({24});

  GetParam().view(device).mul_(-2).add_(1);
  GetParam().view(x).mul_(-2).add_(1);

  EXPECT_TRUE(equals(device, x));
  EXPECT_TRUE(equals(other_view, x.view({24})));
}

INSTANTIATE_TEST_SUITE_P(
    All, XlaView, testing::ValuesIn(kViews), [](const auto& parameter) {
      return std::string(parameter.param.name);
    });

TEST(XlaDevice, ReadsExpandedAndOverlappingViews) {
  const at::Tensor x = counted({3, 1});
  const at::Tensor row = counted({5});

  EXPECT_TRUE(equals(to_xla(x).expand({2, 3, 4}), x.expand({2, 3, 4})));
  EXPECT_TRUE(equals(to_xla(row).unfold(0, 3, 1), row.unfold(0, 3, 1)));
}

TEST(XlaDevice, RefusesToWriteIntoAnExpandedTensor) {
  const at::Tensor x = to_xla(counted({3, 1})).expand({3, 4});

  EXPECT_THAT(
      message_of<c10::Error>([&] { x.add_(1); }),
      HasSubstr("an expanded tensor cannot be written in place"));
}

TEST(XlaDevice, AnswersQuestionsAboutItselfWithoutRunning) {
  const at::Tensor x = to_xla(counted({4})).mul(2);
  const auto executed = test_device().runner().counts().executed;

  EXPECT_TRUE(x.equal(x));
  EXPECT_TRUE(x.equal(x.view({4})));
  EXPECT_FALSE(x.equal(x.view({2, 2})));

  EXPECT_EQ(test_device().runner().counts().executed, executed);
  EXPECT_FALSE(x.equal(x.add(1)));
}

TEST(XlaDevice, RefusesAMixOfDevices) {
  EXPECT_THAT(
      message_of<c10::Error>([] { to_xla(at::ones({2})).add(at::ones({2})); }),
      HasSubstr("add.Tensor got a tensor on cpu and one on xla:0"));
}

TEST(XlaDevice, NamesShapesThatDoNotFit) {
  EXPECT_THAT(
      message_of<c10::Error>(
          [] { to_xla(at::ones({2, 3})).mm(to_xla(at::ones({2, 3}))); }),
      HasSubstr("the shapes [2, 3] and [2, 3] do not match"));
}

TEST(XlaDevice, RefusesAnInPlaceResultThatDoesNotFit) {
  EXPECT_THAT(
      message_of<c10::Error>(
          [] { to_xla(at::ones({3})).add_(to_xla(at::ones({2, 3}))); }),
      HasSubstr("does not fit into a tensor of shape [3]"));
  EXPECT_THAT(
      message_of<c10::Error>(
          [] { to_xla(at::ones({3}, at::kLong)).add_(0.5); }),
      HasSubstr("result of type Float cannot be stored in a tensor of type "
                "Long"));
}

// ---- the CPU fallback ----

TEST(XlaFallback, RunsCountsAndNamesAnOperatorWithoutLowering) {
  const AllowFallbacks allow;
  clear_cpu_fallbacks();
  const at::Tensor x = counted({3, 3}).add(at::eye(3));

  const at::Tensor inverse = to_xla(x).inverse();

  EXPECT_TRUE(to_cpu(inverse).allclose(x.inverse()));
  EXPECT_FALSE(cpu_fallbacks().empty());
}

TEST(XlaFallback, IsAnErrorInStrictMode) {
  EXPECT_THAT(
      message_of<c10::Error>([] { to_xla(at::eye(3)).inverse(); }),
      HasSubstr("has no XLA lowering"));
}

// ---- autograd and modules ----

TEST(XlaDevice, MovesAModuleAndKeepsItsParameters) {
  torch::nn::Linear linear(3, 2);
  const at::Tensor before = linear->weight.detach().clone();
  const at::Tensor parameter = linear->weight;

  linear->to(c10::Device("xla:0"));

  EXPECT_TRUE(parameter.is_same(linear->weight));
  EXPECT_TRUE(parameter.is_xla());
  EXPECT_TRUE(equals(parameter, before));
}

TEST(XlaDevice, DifferentiatesOnTheThreadOfTheEngine) {
  const at::Tensor x = counted({3}).requires_grad_();
  const at::Tensor device = to_xla(x.detach()).requires_grad_();

  (x * x).sum().backward();
  (device * device).sum().backward();

  EXPECT_TRUE(equals(device.grad(), x.grad()));
}

TEST(XlaDevice, DifferentiatesTwice) {
  const at::Tensor x = to_xla(counted({3})).requires_grad_();

  const auto first = torch::autograd::grad(
      {(x * x * x).sum()},
      {x},
      {},
      true,
      /*create_graph=*/true);
  first[0].sum().backward();

  EXPECT_TRUE(equals(x.grad(), counted({3}) * 6));
}

TEST(XlaDevice, SavesCopiesOnTheCpu) {
  const at::Tensor x = to_xla(counted({3}));
  std::stringstream stream;

  torch::save(to_cpu(x), stream);
  at::Tensor loaded;
  torch::load(loaded, stream);

  EXPECT_TRUE(equals(to_xla(loaded), counted({3})));
}

TEST(XlaDevice, CastsInAutocast) {
  const at::Tensor x = to_xla(counted({4, 4}));
  at::autocast::set_autocast_enabled(at::kXLA, true);
  at::autocast::set_autocast_dtype(at::kXLA, at::kBFloat16);

  const at::Tensor product = x.matmul(x);
  const at::Tensor exponential = product.exp();

  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kXLA, false);
  EXPECT_EQ(product.scalar_type(), at::kBFloat16);
  EXPECT_EQ(exponential.scalar_type(), at::kFloat);
  EXPECT_TRUE(
      equals(product.to(at::kFloat), counted({4, 4}).matmul(counted({4, 4}))));
}

// ---- random numbers ----

at::Tensor random_row() {
  return at::empty({1000}, at::device(c10::Device("xla:0"))).uniform_();
}

void seed_device(std::uint64_t seed) {
  at::Generator generator =
      at::globalContext().defaultGenerator(c10::Device("xla:0"));
  generator.set_current_seed(seed);
}

TEST(XlaRandom, RepeatsAfterASeed) {
  test_device();
  seed_device(5);
  const at::Tensor first = to_cpu(random_row());
  const at::Tensor second = to_cpu(random_row());
  seed_device(5);

  EXPECT_TRUE(equals(random_row(), first));
  EXPECT_FALSE(first.equal(second));
}

TEST(XlaRandom, CompilesOnceForAllSeeds) {
  test_device();
  random_row().add(1).sum().item();
  const auto compiled = test_device().runner().counts().compiled;

  for (int i = 0; i < 3; ++i) {
    random_row().add(1).sum().item();
  }

  EXPECT_EQ(test_device().runner().counts().compiled, compiled);
}

TEST(XlaRandom, HasTheRightMoments) {
  test_device();
  seed_device(1);
  const auto options = at::device(c10::Device("xla:0"));
  const at::Tensor u = to_cpu(at::empty({100'000}, options).uniform_(2, 4));
  const at::Tensor z = to_cpu(at::empty({100'000}, options).normal_(1, 2));
  const at::Tensor b = to_cpu(at::empty({100'000}, options).bernoulli_(0.25));

  // Six standard errors of the mean.
  EXPECT_NEAR(u.mean().item<double>(), 3, 0.011);
  EXPECT_GE(u.min().item<double>(), 2);
  EXPECT_LT(u.max().item<double>(), 4);
  EXPECT_NEAR(z.mean().item<double>(), 1, 0.038);
  EXPECT_NEAR(z.std().item<double>(), 2, 0.03);
  EXPECT_NEAR(b.mean().item<double>(), 0.25, 0.0083);
}

TEST(XlaRandom, DropsDifferentElementsInEachStep) {
  const at::Tensor x = to_xla(at::ones({1000}));

  const at::Tensor first = to_cpu(at::dropout(x, 0.5, true));
  const at::Tensor second = to_cpu(at::dropout(x, 0.5, true));

  EXPECT_FALSE(first.equal(second));
  EXPECT_NEAR(first.mean().item<double>(), 1, 0.2);
}

// ---- donation ----

TEST(XlaDonation, TakesTheMemoryOfAnUpdatedTensor) {
  const at::Tensor x = to_xla(counted({4}));
  run_device();

  x.add_(1);
  run_device();

  EXPECT_EQ(test_device().runner().counts().donated, 1);
  EXPECT_TRUE(equals(x, counted({4}) + 1));
}

TEST(XlaDonation, SparesWhatAnotherTensorStillShows) {
  const at::Tensor x = to_xla(counted({4}));
  run_device();
  const at::Tensor kept = x.clone();
  const at::Tensor alias = x.detach();

  x.add_(1);
  run_device();

  EXPECT_TRUE(equals(kept, counted({4})));
  EXPECT_TRUE(equals(alias, counted({4}) + 1));
  EXPECT_TRUE(equals(x, counted({4}) + 1));
}

TEST(XlaDonation, SparesAKeptLoss) {
  const at::Tensor x = to_xla(counted({4}));
  const at::Tensor loss = x.sum();
  run_device();
  const at::Tensor total = loss.detach().clone();

  for (int i = 0; i < 3; ++i) {
    total.add_(loss);
    x.add_(1);
    run_device();
  }

  EXPECT_EQ(loss.item<float>(), 6);
  EXPECT_EQ(total.item<float>(), 24);
}

}  // namespace
}  // namespace accelerate::xla
