// SPDX-License-Identifier: Apache-2.0
#include "accelerate/grad_scaler.h"

#include <limits>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

at::Tensor gradient(float value) {
  return at::full({3}, value);
}

TEST(GradScaler, ScalesTheLossAndUnscalesItsGradient) {
  auto weight = at::ones({3}).requires_grad_();
  torch::optim::SGD optimizer({weight}, 0.1);
  GradScaler scaler;

  scaler.scale(weight.sum()).backward();
  EXPECT_EQ(weight.grad()[0].item<float>(), 65536);
  scaler.unscale_(optimizer);
  scaler.update();

  EXPECT_EQ(weight.grad()[0].item<float>(), 1);
  EXPECT_FALSE(scaler.step_was_skipped());
  EXPECT_EQ(scaler.get_scale(), 65536);
}

TEST(GradScaler, UnscalesOncePerOwnerAndStep) {
  GradScaler scaler({.init_scale = 4});
  const int first = 0;
  const int second = 0;
  auto a = gradient(8);
  auto b = gradient(8);

  scaler.unscale_({a}, &first);
  scaler.unscale_({a}, &first);
  scaler.unscale_({b}, &second);
  EXPECT_EQ(a[0].item<float>(), 2);
  EXPECT_EQ(b[0].item<float>(), 2);

  scaler.update();
  scaler.unscale_({a}, &first);
  EXPECT_EQ(a[0].item<float>(), 0.5F);
}

TEST(GradScaler, ShrinksOnOverflowAndGrowsAfterTheInterval) {
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  const int owner = 0;
  const auto step = [&](float value) {
    scaler.unscale_({gradient(value)}, &owner);
    scaler.update();
    return scaler.step_was_skipped();
  };

  EXPECT_TRUE(step(kInf));
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_FALSE(step(1));
  EXPECT_TRUE(step(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(scaler.get_scale(), 2);
  EXPECT_FALSE(step(1));
  EXPECT_EQ(scaler.get_scale(), 2);
  EXPECT_FALSE(step(1));
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST(GradScaler, KeepsTheFlagOfTheLastStepUntilTheNextOne) {
  GradScaler scaler;
  const int owner = 0;
  const at::Tensor flag = scaler.found_inf(&owner);

  scaler.unscale_({gradient(kInf)}, &owner);
  EXPECT_EQ(flag.item<float>(), 1);
  scaler.update();
  EXPECT_EQ(flag.item<float>(), 1);
  EXPECT_TRUE(scaler.step_was_skipped());

  scaler.unscale_({gradient(1)}, &owner);
  EXPECT_EQ(flag.item<float>(), 0);
  EXPECT_FALSE(scaler.step_was_skipped());
  EXPECT_TRUE(flag.is_same(scaler.found_inf(&owner)));
}

TEST(GradScaler, CountsAnOverflowOfAnyOwner) {
  GradScaler scaler({.init_scale = 8});
  const int good = 0;
  const int bad = 0;

  scaler.unscale_({gradient(1)}, &good);
  EXPECT_FALSE(scaler.step_was_skipped());
  scaler.unscale_({gradient(kInf)}, &bad);
  scaler.update();

  EXPECT_TRUE(scaler.step_was_skipped());
  EXPECT_EQ(scaler.found_inf(&good).item<float>(), 0);
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST(GradScaler, AcceptsUndefinedSparseAndMixedGradients) {
  GradScaler scaler({.init_scale = 2});
  auto sparse = at::sparse_coo_tensor(
      at::tensor({1, 1}, at::kLong).unsqueeze(0),
      at::tensor({2.0F, 4.0F}),
      {3});
  auto wide = at::full({2}, 6.0, at::kDouble);

  const int owner = 0;
  scaler.unscale_({at::Tensor(), sparse, wide}, &owner);

  EXPECT_EQ(sparse.to_dense()[1].item<float>(), 3);
  EXPECT_EQ(wide[0].item<double>(), 3);
}

TEST(GradScaler, ChangesNothingWhenNotEnabled) {
  GradScaler scaler({.enabled = false});
  const auto loss = at::ones({});
  auto bad = gradient(kInf);
  const int owner = 0;

  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  scaler.unscale_({bad}, &owner);
  scaler.update();

  EXPECT_FALSE(scaler.step_was_skipped());
  EXPECT_FALSE(scaler.found_inf(&owner).defined());
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(scaler.state_dict(), Json::object());
}

TEST(GradScaler, ContinuesFromItsState) {
  GradScaler saved({.init_scale = 8, .growth_interval = 3});
  const int owner = 0;
  for (int i = 0; i < 2; ++i) {
    saved.unscale_({gradient(1)}, &owner);
    saved.update();
  }
  const Json state = Json::parse(saved.state_dict().dump());
  EXPECT_EQ(
      state.dump(),
      R"({"scale":8.0,"growth_factor":2.0,"backoff_factor":0.5,)"
      R"("growth_interval":3,"_growth_tracker":2})");

  GradScaler loaded;
  loaded.load_state_dict(state);
  loaded.unscale_({gradient(1)}, &owner);
  loaded.update();

  EXPECT_EQ(loaded.get_scale(), 16);
}

TEST(GradScaler, ReportsWrongUse) {
  const int owner = 0;
  EXPECT_EQ(
      message_of<StateError>([] { GradScaler().update(); }),
      "`GradScaler::update` was called, but `unscale_` has not been called "
      "since the last update");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { GradScaler().unscale_({at::ones({2}, at::kHalf)}, &owner); }),
      "a gradient of shape [2] has type fp16, whose range is too small for "
      "unscaling");
  EXPECT_EQ(
      message_of<StateError>(
          [] { GradScaler().load_state_dict(Json::object()); }),
      "the saved gradient scaler was not enabled, but this scaler is enabled");
  EXPECT_EQ(
      message_of<FormatError>(
          [] { GradScaler().load_state_dict(Json::object({{"scale", 2.0}})); }),
      "the key `growth_factor` is missing");
}

struct BadOption {
  GradScalerKwargs options;
  std::string message;
};

TEST(GradScaler, RejectsOptionsOutOfRange) {
  for (const auto& [options, message] : std::vector<BadOption>{
           {{.init_scale = 0}, "`GradScalerKwargs::init_scale` is 0"},
           {{.growth_factor = 1}, "`GradScalerKwargs::growth_factor` is 1"},
           {{.backoff_factor = 1}, "`GradScalerKwargs::backoff_factor` is 1"},
           {{.growth_interval = 0},
            "`GradScalerKwargs::growth_interval` is 0"}}) {
    EXPECT_EQ(
        message_of<ArgumentError>(
            [&, &bad = options] { GradScaler scaler(bad); }),
        message);
  }
}

}  // namespace
}  // namespace accelerate
