// SPDX-License-Identifier: Apache-2.0
#include "accelerate/autocast.h"

#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/module.h>

#include "accelerate/autocast_module.h"

namespace accelerate {
namespace {

c10::ScalarType type_of_product() {
  return at::ones({2, 2}).mm(at::ones({2, 2})).scalar_type();
}

TEST(AutocastGuard, ComputesInBf16InsideItsScope) {
  {
    const AutocastGuard guard(at::kCPU, Precision::bf16);
    EXPECT_EQ(type_of_product(), at::kBFloat16);
  }
  EXPECT_EQ(type_of_product(), at::kFloat);
}

TEST(AutocastGuard, ChangesNothingWithPrecisionNo) {
  const AutocastGuard outer(at::kCPU, Precision::bf16);
  const AutocastGuard inner(at::kCPU, Precision::no);
  EXPECT_EQ(type_of_product(), at::kBFloat16);
}

TEST(AutocastGuard, NestsAFullPrecisionRegion) {
  const AutocastGuard outer(at::kCPU, Precision::bf16);
  {
    const AutocastGuard inner(at::kCPU, Precision::no, {.enabled = false});
    EXPECT_EQ(type_of_product(), at::kFloat);
    const AutocastGuard innermost(at::kCPU, Precision::fp16);
    EXPECT_EQ(type_of_product(), at::kHalf);
  }
  EXPECT_EQ(type_of_product(), at::kBFloat16);
}

TEST(AutocastGuard, PutsEverythingBackOnAnException) {
  const auto dtype = at::autocast::get_autocast_dtype(at::kCPU);
  const bool cache = at::autocast::is_autocast_cache_enabled();

  EXPECT_THROW(
      {
        const AutocastGuard guard(
            at::kCPU, Precision::fp16, {.cache_enabled = !cache});
        throw std::runtime_error("in the forward");
      },
      std::runtime_error);

  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), dtype);
  EXPECT_EQ(at::autocast::is_autocast_cache_enabled(), cache);
  // The nesting count is back at 0, too.
  EXPECT_EQ(at::autocast::increment_nesting(), 1);
  EXPECT_EQ(at::autocast::decrement_nesting(), 0);
}

TEST(AutocastGuard, BelongsToItsThread) {
  const AutocastGuard guard(at::kCPU, Precision::bf16);
  c10::ScalarType elsewhere = at::kBFloat16;
  std::thread([&] { elsewhere = type_of_product(); }).join();
  EXPECT_EQ(elsewhere, at::kFloat);
}

// The cache keeps the bf16 copy of a leaf that requires gradients.
at::Tensor product_with(const at::Tensor& weight) {
  return at::ones({2, 2}).mm(weight).to(at::kFloat).detach();
}

TEST(AutocastGuard, ForgetsCastWeightsAtTheOutermostEnd) {
  auto weight = at::ones({2, 2}).requires_grad_();
  {
    const AutocastGuard guard(
        at::kCPU, Precision::bf16, {.cache_enabled = true});
    product_with(weight);
    at::NoGradGuard no_grad;
    weight.fill_(3);
  }
  const AutocastGuard guard(at::kCPU, Precision::bf16, {.cache_enabled = true});
  EXPECT_EQ(product_with(weight)[0][0].item<float>(), 6);
}

TEST(AutocastGuard, ForgetsCastWeightsWhereTheCacheWasOffOutside) {
  const AutocastGuard thread_scope(
      at::kCPU, Precision::bf16, {.cache_enabled = false});
  auto weight = at::ones({2, 2}).requires_grad_();
  for (const float value : {1.0F, 3.0F}) {
    {
      at::NoGradGuard no_grad;
      weight.fill_(value);
    }
    const AutocastGuard guard(
        at::kCPU, Precision::bf16, {.cache_enabled = true});
    EXPECT_EQ(product_with(weight)[0][0].item<float>(), 2 * value);
  }
}

struct Square : torch::nn::Module, AutocastModule {
  at::Tensor forward(const at::Tensor& x) {
    return with_autocast([&] {
      seen = x.mm(x).scalar_type();
      return x.mm(x);
    });
  }
  std::map<std::string, at::Tensor> forward_named(const at::Tensor& x) {
    return with_autocast([&] {
      return std::map<std::string, at::Tensor>{
          {"logits", x.mm(x)}, {"labels", at::ones({2}, at::kLong)}};
    });
  }
  c10::ScalarType seen = at::kFloat;
};

TEST(AutocastModule, ComputesInFp32WithoutAPolicy) {
  Square net;
  EXPECT_EQ(net.forward(at::ones({2, 2})).scalar_type(), at::kFloat);
  EXPECT_EQ(net.seen, at::kFloat);
}

TEST(AutocastModule, ComputesInItsPrecisionAndReturnsFp32) {
  Square net;
  torch::nn::Module& module = net;
  // How the Accelerator finds it.
  auto* aware = dynamic_cast<AutocastModule*>(&module);
  ASSERT_NE(aware, nullptr);
  aware->set_autocast(AutocastPolicy{at::kCPU, Precision::bf16});

  EXPECT_EQ(net.forward(at::ones({2, 2})).scalar_type(), at::kFloat);
  EXPECT_EQ(net.seen, at::kBFloat16);
  const auto outputs = net.forward_named(at::ones({2, 2}));
  EXPECT_EQ(outputs.at("logits").scalar_type(), at::kFloat);
  EXPECT_EQ(outputs.at("labels").scalar_type(), at::kLong);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));

  aware->set_autocast(std::nullopt);
  net.forward(at::ones({2, 2}));
  EXPECT_EQ(net.seen, at::kFloat);
}

}  // namespace
}  // namespace accelerate
