// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/adamw.h"

#include "gpu/kernels/kernel_support.h"

namespace accelerate::cuda::kernels {
namespace {

struct Parameter {
  at::Tensor value, gradient, exp_avg, exp_avg_sq, bf16_copy;
};

std::vector<Parameter> parameters_of(
    const std::vector<std::int64_t>& sizes, at::ScalarType gradient_type) {
  std::vector<Parameter> all;
  for (const std::int64_t size : sizes) {
    // Every third tensor starts at an odd address, where vectors do not fit.
    const std::int64_t skip = all.size() % 3 == 2 ? 1 : 0;
    const auto piece = [&](const at::Tensor& t) { return t.slice(0, skip); };
    all.push_back(
        {piece(random({size + skip})),
         piece(random({size + skip}, gradient_type)),
         piece(random({size + skip}) * 0.1),
         piece(random({size + skip}).abs() * 0.1),
         piece(poisoned({size + skip}, at::kBFloat16))});
  }
  return all;
}

void run(
    const std::vector<Parameter>& all,
    const at::Tensor& step,
    const AdamWArguments& arguments) {
  std::vector<AdamWTensor> tensors;
  for (const Parameter& p : all) {
    tensors.push_back(
        {floats(p.value),
         bytes(p.gradient),
         floats(p.exp_avg),
         floats(p.exp_avg_sq),
         floats(step),
         bytes(p.bf16_copy),
         p.value.numel()});
  }
  adamw(tensors.data(), static_cast<int>(tensors.size()), arguments, stream());
}

// One step in fp64, with the formulas of the paper.
void step_reference(Parameter& p, double lr, double step, double scale) {
  const auto g = p.gradient.to(at::kDouble) / scale;
  p.value = p.value.to(at::kDouble) * (1 - lr * 0.01);
  p.exp_avg = p.exp_avg.to(at::kDouble) * 0.9 + g * 0.1;
  p.exp_avg_sq = p.exp_avg_sq.to(at::kDouble) * 0.999 + g * g * 0.001;
  const auto m = p.exp_avg / (1 - std::pow(0.9, step));
  const auto v = p.exp_avg_sq / (1 - std::pow(0.999, step));
  p.value = p.value - lr * m / (v.sqrt() + 1e-8);
}

void check(
    const std::vector<std::int64_t>& sizes, at::ScalarType gradient_type) {
  const auto all = parameters_of(sizes, gradient_type);
  auto expected = all;
  std::vector<at::Tensor> parts;
  for (Parameter& p : expected) {
    parts.push_back(
        p.exp_avg.to(at::kDouble).abs() * 0.9 +
        p.gradient.to(at::kDouble).abs() * (0.1 / 8));
    step_reference(p, 3e-3, 3, 8);
  }
  const auto lr = at::full({1}, 3e-3, on_gpu());
  const auto step = at::full({1}, 3.0, on_gpu());
  const auto scale = at::full({1}, 8.0, on_gpu());
  const auto found_inf = at::zeros({1}, on_gpu());
  run(all,
      step,
      {.gradient_type = type_of(gradient_type),
       .lr_at = floats(lr),
       .grad_scale_at = floats(scale),
       .found_inf_at = floats(found_inf)});
  for (std::size_t i = 0; i < all.size(); ++i) {
    // The two terms of the mean may cancel, especially in a tensor with one
    // element.
    EXPECT_CLOSE(
        all[i].exp_avg - expected[i].exp_avg + parts[i], parts[i], 1e-6);
    EXPECT_CLOSE(all[i].value, expected[i].value, 1e-6);
    EXPECT_CLOSE(all[i].exp_avg_sq, expected[i].exp_avg_sq, 1e-6);
    EXPECT_TRUE(at::equal(all[i].bf16_copy, all[i].value.to(at::kBFloat16)));
  }
}

TEST(AdamWKernel, UpdatesEveryTensor) {
  for (const auto type : activation_types()) {
    check({1, 7, 8, 0, 4096, 8192, 8193, 100003, 768 * 768}, type);
  }
}

TEST(AdamWKernel, UpdatesMoreTensorsThanFitIntoOneLaunch) {
  check(std::vector<std::int64_t>(901, 33), at::kFloat);
}

TEST(AdamWKernel, WritesNothingWhenAGradientOverflowed) {
  const auto all = parameters_of({100, 9000}, at::kFloat);
  std::vector<Parameter> before;
  for (const Parameter& p : all) {
    before.push_back(
        {p.value.clone(), {}, p.exp_avg.clone(), p.exp_avg_sq.clone(), {}});
  }
  const auto found_inf = at::ones({1}, on_gpu());
  run(all,
      at::ones({1}, on_gpu()),
      {.lr = 1.0, .found_inf_at = floats(found_inf)});
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(at::equal(all[i].value, before[i].value));
    EXPECT_TRUE(at::equal(all[i].exp_avg, before[i].exp_avg));
    EXPECT_TRUE(at::equal(all[i].exp_avg_sq, before[i].exp_avg_sq));
    EXPECT_TRUE(all[i].bf16_copy.isnan().all().item<bool>());
  }
}

}  // namespace
}  // namespace accelerate::cuda::kernels
