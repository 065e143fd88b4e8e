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

c10::ScalarType matmul_dtype() {
  return at::ones({2, 2}).mm(at::ones({2, 2})).scalar_type();
}

TEST(AutocastGuard, ComputesInBf16InsideItsScope) {
  {
    const AutocastGuard guard(at::kCPU, Precision::bf16);
    EXPECT_EQ(matmul_dtype(), at::kBFloat16);
  }
  EXPECT_EQ(matmul_dtype(), at::kFloat);
}

TEST(AutocastGuard, ChangesNothingWithPrecisionNo) {
  const AutocastGuard outer(at::kCPU, Precision::bf16);
  const AutocastGuard inner(at::kCPU, Precision::no);
  EXPECT_EQ(matmul_dtype(), at::kBFloat16);
}

TEST(AutocastGuard, SupportsANestedFullPrecisionRegion) {
  const AutocastGuard outer(at::kCPU, Precision::bf16);
  {
    const AutocastGuard inner(at::kCPU, Precision::no, {.enabled = false});
    EXPECT_EQ(matmul_dtype(), at::kFloat);
    const AutocastGuard innermost(at::kCPU, Precision::fp16);
    EXPECT_EQ(matmul_dtype(), at::kHalf);
  }
  EXPECT_EQ(matmul_dtype(), at::kBFloat16);
}

TEST(AutocastGuard, RestoresEverythingAfterAnException) {
  const auto dtype = at::autocast::get_autocast_dtype(at::kCPU);
  const bool cache = at::autocast::is_autocast_cache_enabled();

  EXPECT_THROW(
      {
        const AutocastGuard guard(
            at::kCPU, Precision::fp16, {.cache_enabled = !cache});
        throw std::runtime_error("in forward");
      },
      std::runtime_error);

  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), dtype);
  EXPECT_EQ(at::autocast::is_autocast_cache_enabled(), cache);
  // The nesting count is also back at 0.
  EXPECT_EQ(at::autocast::increment_nesting(), 1);
  EXPECT_EQ(at::autocast::decrement_nesting(), 0);
}

TEST(AutocastGuard, AffectsOnlyItsThread) {
  const AutocastGuard guard(at::kCPU, Precision::bf16);
  c10::ScalarType other_thread = at::kBFloat16;
  std::thread([&] { other_thread = matmul_dtype(); }).join();
  EXPECT_EQ(other_thread, at::kFloat);
}

// The cache holds bf16 copies of leaf tensors that require gradients.
at::Tensor matmul_with(const at::Tensor& weight) {
  return at::ones({2, 2}).mm(weight).to(at::kFloat).detach();
}

TEST(AutocastGuard, ClearsTheCacheAtTheOutermostEnd) {
  auto weight = at::ones({2, 2}).requires_grad_();
  {
    const AutocastGuard guard(
        at::kCPU, Precision::bf16, {.cache_enabled = true});
    matmul_with(weight);
    at::NoGradGuard no_grad;
    weight.fill_(3);
  }
  const AutocastGuard guard(at::kCPU, Precision::bf16, {.cache_enabled = true});
  EXPECT_EQ(matmul_with(weight)[0][0].item<float>(), 6);
}

TEST(AutocastGuard, ClearsTheCacheIfItWasOffOutside) {
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
    EXPECT_EQ(matmul_with(weight)[0][0].item<float>(), 2 * value);
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
  // The Accelerator finds the base class in the same way.
  auto* autocast_module = dynamic_cast<AutocastModule*>(&module);
  ASSERT_NE(autocast_module, nullptr);
  autocast_module->set_autocast(AutocastPolicy{at::kCPU, Precision::bf16});

  EXPECT_EQ(net.forward(at::ones({2, 2})).scalar_type(), at::kFloat);
  EXPECT_EQ(net.seen, at::kBFloat16);
  const auto outputs = net.forward_named(at::ones({2, 2}));
  EXPECT_EQ(outputs.at("logits").scalar_type(), at::kFloat);
  EXPECT_EQ(outputs.at("labels").scalar_type(), at::kLong);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));

  autocast_module->set_autocast(std::nullopt);
  net.forward(at::ones({2, 2}));
  EXPECT_EQ(net.seen, at::kFloat);
}

}  // namespace
}  // namespace accelerate
