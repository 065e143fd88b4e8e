// SPDX-License-Identifier: Apache-2.0
#include "accelerate/clip_grad.h"

#include <cmath>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/utils/clip_grad.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

std::vector<at::Tensor> three_and_four() {
  return {at::full({1}, 3.0F), at::Tensor(), at::full({1, 1}, -4.0F)};
}

TEST(ClipGradNorm, ScalesAllToTheNorm) {
  const auto gradients = three_and_four();

  const at::Tensor norm = clip_grad_norm(gradients, 1.0);

  EXPECT_EQ(norm.dim(), 0);
  EXPECT_FLOAT_EQ(norm.item<float>(), 5);
  // 1e-6 is added to the norm: 1 / (5 + 1e-6).
  EXPECT_FLOAT_EQ(gradients[0].item<float>(), 3.0F / 5.000001F);
  EXPECT_FLOAT_EQ(gradients[2].item<float>(), -4.0F / 5.000001F);
}

TEST(ClipGradNorm, LeavesSmallGradientsUnchanged) {
  const auto gradients = three_and_four();
  clip_grad_norm(gradients, 6.0);
  EXPECT_EQ(gradients[0].item<float>(), 3);
  EXPECT_EQ(gradients[2].item<float>(), -4);
}

TEST(ClipGradNorm, SupportsOtherNorms) {
  const auto norm = [](double norm_type) {
    return clip_grad_norm(three_and_four(), 1.0, {.norm_type = norm_type})
        .item<float>();
  };
  EXPECT_FLOAT_EQ(norm(1), 7);
  EXPECT_FLOAT_EQ(norm(3), std::cbrt(27.0F + 64.0F));
  EXPECT_FLOAT_EQ(norm(INFINITY), 4);
}

TEST(ClipGradNorm, AgreesWithLibTorch) {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  for (int i = 1; i < 8; ++i) {
    parameters.push_back(at::zeros({i, 5}).requires_grad_());
    parameters.back().mutable_grad() = at::randn({i, 5});
    gradients.push_back(parameters.back().grad().clone());
  }

  const double expected = torch::nn::utils::clip_grad_norm_(parameters, 0.5);
  const double norm = clip_grad_norm(gradients, 0.5).item<double>();

  EXPECT_NEAR(norm, expected, 1e-6 * expected);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_TRUE(at::allclose(gradients[i], parameters[i].grad(), 1e-6, 1e-8));
  }
}

TEST(ClipGradNorm, AcceptsSparseAndMixedGradients) {
  auto sparse = at::sparse_coo_tensor(
      at::tensor({1, 1}, at::kLong).unsqueeze(0),
      at::tensor({1.0F, 2.0F}),
      {3});
  auto wide = at::full({1}, 4.0, at::kDouble);

  const at::Tensor norm = clip_grad_norm({sparse, wide}, 2.5);

  EXPECT_FLOAT_EQ(norm.item<float>(), 5);
  EXPECT_NEAR(sparse.to_dense()[1].item<float>(), 1.5F, 1e-6);
  EXPECT_NEAR(wide.item<double>(), 2.0, 1e-6);
}

TEST(ClipGradNorm, IsZeroWithoutGradients) {
  EXPECT_EQ(clip_grad_norm({at::Tensor()}, 1.0).item<float>(), 0);
  EXPECT_EQ(clip_grad_norm({}, 1.0).item<float>(), 0);
}

TEST(ClipGradNorm, ThrowsOnInfOnlyIfRequested) {
  std::vector<at::Tensor> gradients = {at::ones({2}), at::full({1}, INFINITY)};
  EXPECT_EQ(
      message_of<StateError>([&] {
        clip_grad_norm(gradients, 1.0, {.error_if_nonfinite = true});
      }),
      "the gradient norm (p = 2) is inf, so the gradients cannot be clipped");
  EXPECT_EQ(gradients[0][0].item<float>(), 1);

  clip_grad_norm(gradients, 1.0);
  EXPECT_EQ(gradients[0][0].item<float>(), 0);
  EXPECT_TRUE(std::isnan(gradients[1].item<float>()));
}

TEST(ClipGradNorm, RejectsInvalidLimits) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { clip_grad_norm({}, -1.0); }),
      "`max_norm` is -1");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { clip_grad_norm({}, 1.0, {.norm_type = 0}); }),
      "`norm_type` is 0");
  EXPECT_EQ(
      message_of<ArgumentError>([] { clip_grad_value({}, -2.0); }),
      "`clip_value` is -2");
}

TEST(ClipGradValue, ClampsEachElement) {
  auto gradient = at::tensor({-3.0F, 0.5F, 2.0F});
  clip_grad_value({gradient, at::Tensor()}, 1.0);
  EXPECT_TRUE(gradient.equal(at::tensor({-1.0F, 0.5F, 1.0F})));
}

}  // namespace
}  // namespace accelerate
