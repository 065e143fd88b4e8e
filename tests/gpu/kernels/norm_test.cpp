// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/norm.h"

#include <algorithm>

#include "gpu/kernels/kernel_support.h"

namespace accelerate::cuda::kernels {
namespace {

struct NormCase {
  std::int64_t rows;
  std::int64_t width;
  at::ScalarType type;
  bool is_rms = false;
  bool with_residual = false;
  float rate = 0.0F;

  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(width) + " " +
           c10::toString(type) + (is_rms ? " rms" : " layer") +
           (with_residual ? " residual" : "") + (rate > 0 ? " dropout" : "");
  }
};

struct NormTensors {
  at::Tensor x, bias, residual, weight, shift, sum, y, mean, rstd;
};

NormTensors make_tensors(const NormCase& c) {
  NormTensors t;
  t.x = random({c.rows, c.width}, c.type);
  t.weight = random({c.width}) + 1.0;
  if (c.with_residual) {
    t.bias = random({c.width});
    t.residual = random({c.rows, c.width}, c.type);
    t.sum = poisoned({c.rows, c.width}, c.type);
  }
  if (!c.is_rms) {
    t.shift = random({c.width});
    t.mean = poisoned({c.rows});
  }
  t.y = poisoned({c.rows, c.width}, c.type);
  t.rstd = poisoned({c.rows});
  return t;
}

Dropout dropout_of(const NormCase& c) {
  return {c.rate, {nullptr, nullptr, 1234, 56}};
}

// Returns the largest ratio of a row's root mean square to its standard
// deviation. Subtracting the mean magnifies rounding errors by this ratio,
// which can be large for rows with few values.
double max_cancellation(const at::Tensor& x) {
  if (x.numel() == 0 || x.size(1) < 2) {
    return 1.0;
  }
  const auto rows = x.to(at::kDouble);
  const auto size = rows.pow(2).mean(1).sqrt();
  const auto deviation = rows.var(1, /*unbiased=*/false).sqrt();
  return std::max(1.0, (size / deviation).max().item<double>());
}

void run_forward(const NormCase& c, NormTensors& t, const Dropout& dropout) {
  norm_forward(
      {.type = type_of(c.type),
       .rows = c.rows,
       .width = c.width,
       .x = bytes(t.x),
       .bias = floats(t.bias),
       .residual = bytes(t.residual),
       .dropout = dropout,
       .weight = floats(t.weight),
       .shift = floats(t.shift),
       .is_rms = c.is_rms,
       .eps = 1e-5F,
       .sum = bytes(t.sum),
       .y = bytes(t.y),
       .mean = floats(t.mean),
       .rstd = floats(t.rstd)},
      stream());
}

// Forward with x = 1, no bias and a residual of 0 returns the mask.
at::Tensor mask_of(const NormCase& c) {
  if (c.rate == 0.0F) {
    return at::ones({c.rows, c.width}, on_gpu());
  }
  NormCase bare = c;
  bare.type = at::kFloat;
  NormTensors t = make_tensors(bare);
  t.x.fill_(1.0);
  t.bias.zero_();
  t.residual.zero_();
  run_forward(bare, t, dropout_of(c));
  return t.sum;
}

at::Tensor reference(
    const NormCase& c,
    const at::Tensor& x,
    const at::Tensor& bias,
    const at::Tensor& residual,
    const at::Tensor& mask,
    const at::Tensor& weight,
    const at::Tensor& shift) {
  auto sum = x;
  if (c.with_residual) {
    sum = residual + (x + bias) * mask;
  }
  if (c.is_rms) {
    return sum * (sum.pow(2).mean(-1, true) + 1e-5).rsqrt() * weight;
  }
  return at::layer_norm(sum, {c.width}, weight, shift, 1e-5);
}

void check(const NormCase& c) {
  SCOPED_TRACE(c.name());
  NormTensors t = make_tensors(c);
  run_forward(c, t, dropout_of(c));
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(at::kDouble).requires_grad_(true)
                            : tensor;
  };
  const auto x = leaf(t.x), bias = leaf(t.bias), residual = leaf(t.residual);
  const auto weight = leaf(t.weight), shift = leaf(t.shift);
  const auto mask = mask_of(c).to(at::kDouble);
  const auto y = reference(c, x, bias, residual, mask, weight, shift);
  EXPECT_CLOSE(t.y, y, bound_of(c.type));

  const auto dy = random({c.rows, c.width}, c.type);
  const auto extra = random({c.rows, c.width}, c.type);
  y.backward(dy.to(at::kDouble));
  const auto d_sum = poisoned({c.rows, c.width}, c.type);
  const auto dx =
      c.rate > 0 ? poisoned({c.rows, c.width}, c.type) : at::Tensor();
  const auto d_weight = poisoned({c.width});
  const auto d_shift = c.is_rms ? at::Tensor() : poisoned({c.width});
  const auto d_bias = c.with_residual ? poisoned({c.width}) : at::Tensor();
  const auto workspace = poisoned({norm_workspace(c.rows, c.width)});
  const NormBackward work = {
      .type = type_of(c.type),
      .rows = c.rows,
      .width = c.width,
      .dy = bytes(dy),
      .sum = bytes(t.sum.defined() ? t.sum : t.x),
      .d_extra = c.with_residual ? bytes(extra) : nullptr,
      .weight = floats(t.weight),
      .mean = floats(t.mean),
      .rstd = floats(t.rstd),
      .dropout = dropout_of(c),
      .d_sum = bytes(d_sum),
      .dx = bytes(dx),
      .d_weight = floats(d_weight),
      .d_shift = floats(d_shift),
      .d_bias = floats(d_bias),
      .workspace = floats(workspace)};
  norm_backward(work, stream());
  norm_backward_sums(work, stream());
  // The saved sum is rounded once more than the reference.
  const double bound = 2 * bound_of(c.type);
  EXPECT_CLOSE(
      d_weight,
      weight.grad(),
      bound *
          (c.is_rms ? 1.0 : max_cancellation(t.sum.defined() ? t.sum : t.x)));
  if (!c.is_rms) {
    EXPECT_CLOSE(d_shift, shift.grad(), 1e-5);
  }
  if (!c.with_residual) {
    EXPECT_CLOSE(d_sum, x.grad(), bound);
    return;
  }
  const auto added = residual.grad() + extra.to(at::kDouble);
  EXPECT_CLOSE(d_sum, added, bound);
  EXPECT_CLOSE(d_bias, (added * mask).sum(0), bound);
  if (dx.defined()) {
    EXPECT_CLOSE(dx, added * mask, bound);
  }
}

// Covers every code path: one warp, one thread block, and widths that are not a
// multiple of the vector size.
const std::int64_t kWidths[] = {
    8, 64, 256, 384, 768, 776, 1024, 1032, 2048, 4096, 8192, 9000, 7, 100, 770};

TEST(NormKernel, IsCorrectForEveryWidth) {
  for (const std::int64_t width : kWidths) {
    for (const auto type : activation_types()) {
      check({37, width, type});
      check({37, width, type, true});
      check({37, width, type, false, true, 0.1F});
      check({37, width, type, true, true});
    }
  }
}

TEST(NormKernel, SupportsAnyNumberOfRows) {
  for (const std::int64_t rows : {0, 1, 3, 4, 5, 131, 1024, 65536}) {
    check({rows, 768, at::kBFloat16, false, true, 0.1F});
    check({rows, 2048, at::kBFloat16, true, true});
  }
}

TEST(NormKernel, SmallCases) {  // For compute-sanitizer.
  check({5, 768, at::kBFloat16, false, true, 0.1F});
  check({5, 2048, at::kBFloat16, true, true});
  check({5, 770, at::kBFloat16, false, true, 0.1F});
  check({5, 768, at::kFloat});
}

TEST(NormKernel, DropsTheRequestedFraction) {
  const auto mask = mask_of({4096, 768, at::kFloat, false, true, 0.1F});
  const double dropped = mask.eq(0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.1, 1e-3);
  EXPECT_NEAR(mask.mean().item<double>(), 1.0, 1e-3);
  // Checks that adjacent rows and columns are independent.
  const auto centred = mask.ne(0).to(at::kDouble) - (1 - dropped);
  const double along =
      (centred.slice(1, 1) * centred.slice(1, 0, -1)).mean().item<double>();
  const double across =
      (centred.slice(0, 1) * centred.slice(0, 0, -1)).mean().item<double>();
  EXPECT_NEAR(along, 0.0, 5e-4);
  EXPECT_NEAR(across, 0.0, 5e-4);
}

TEST(NormKernel, ReadsTheSeedFromDeviceMemory) {
  const NormCase c = {64, 768, at::kFloat, false, true, 0.25F};
  const auto state =
      at::tensor({std::int64_t{1234}, std::int64_t{50}}, at::kLong)
          .to(at::kCUDA);
  NormTensors by_value = make_tensors(c);
  run_forward(c, by_value, dropout_of(c));
  NormTensors by_pointer = by_value;
  by_pointer.sum = poisoned({c.rows, c.width});
  auto* const at = state.data_ptr<std::int64_t>();
  run_forward(c, by_pointer, {c.rate, {at, at + 1, 0, 6}});
  EXPECT_TRUE(at::equal(by_pointer.sum, by_value.sum));
  run_forward(c, by_pointer, {c.rate, {at, at + 1, 0, 7}});
  EXPECT_FALSE(at::equal(by_pointer.sum, by_value.sum));
}

}  // namespace
}  // namespace accelerate::cuda::kernels
