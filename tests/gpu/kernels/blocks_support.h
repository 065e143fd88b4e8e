// SPDX-License-Identifier: Apache-2.0
// Compares fused blocks with plain LibTorch operators. For the result and each
// gradient, the error of a fused block may be up to twice the error of the
// plain operators in bf16. Errors are relative to a reference in fp64.
#pragma once

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

using Tensors = std::vector<at::Tensor>;
using Compute = std::function<at::Tensor(const at::Tensor&, const Tensors&)>;

inline at::TensorOptions on_gpu() {
  return at::TensorOptions(at::kFloat).device(at::kCUDA);
}

inline double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const auto a = actual.to(at::kDouble);
  const auto e = expected.to(at::kDouble);
  const double norm = e.norm().item<double>();
  return (a - e).norm().item<double>() / (norm > 0 ? norm : 1.0);
}

struct Outcome {
  at::Tensor y;
  Tensors gradients;  // The gradient of x, then of each parameter.
};

inline Outcome run(
    const Compute& compute,
    const at::Tensor& x,
    const Tensors& parameters,
    const at::Tensor& dy,
    at::ScalarType type) {
  const auto leaf = [&](const at::Tensor& t) {
    return t.detach().to(type).clone().requires_grad_(true);
  };
  const auto x_leaf = leaf(x);
  Tensors leaves;
  for (const auto& parameter : parameters) {
    leaves.push_back(leaf(parameter));
  }
  Outcome outcome;
  outcome.y = compute(x_leaf, leaves);
  outcome.y.backward(dy.to(outcome.y.scalar_type()));
  outcome.gradients.push_back(x_leaf.grad());
  for (const auto& parameter : leaves) {
    outcome.gradients.push_back(parameter.grad());
  }
  return outcome;
}

// Runs `plain` in fp64 as the reference and in bf16 as the baseline. `fused`
// gets fp32 parameters and x in fp32, with values that bf16 can represent.
inline void compare(
    const Compute& plain,
    const Compute& fused,
    const at::Tensor& x,
    const Tensors& parameters,
    const std::vector<std::string>& names) {
  const auto dy = at::randn_like(plain(x, parameters)).to(at::kBFloat16);
  const auto reference = run(plain, x, parameters, dy, at::kDouble);
  const auto baseline = run(plain, x, parameters, dy, at::kBFloat16);
  const auto result = run(fused, x, parameters, dy, at::kFloat);
  const auto check = [](const std::string& name,
                        const at::Tensor& fused_value,
                        const at::Tensor& plain_value,
                        const at::Tensor& exact) {
    if (exact.norm().item<double>() < 1e-9) {
      // Skips the bias of the keys, whose gradient is zero except for rounding.
      return;
    }
    const double fused_error = error_of(fused_value, exact);
    const double plain_error = error_of(plain_value, exact);
    EXPECT_LE(fused_error, 2 * plain_error + 1e-6) << name;
    std::printf(
        "  %-12s fused %.2e plain %.2e\n",
        name.c_str(),
        fused_error,
        plain_error);
  };
  check("y", result.y, baseline.y, reference.y);
  for (std::size_t i = 0; i < reference.gradients.size(); ++i) {
    check(
        i == 0 ? "dx" : names.at(i - 1),
        result.gradients[i],
        baseline.gradients[i],
        reference.gradients[i]);
  }
}

inline at::Tensor rounded(const at::Tensor& t) {
  return t.to(at::kBFloat16).to(at::kFloat);
}

inline at::Tensor draw(at::IntArrayRef sizes, double scale) {
  return rounded(at::randn(sizes, on_gpu()) * scale);
}

inline at::Tensor heads_of(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

// Computes attention with separate operators, which also run in fp64.
inline at::Tensor attend(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& allowed) {
  auto scores = at::matmul(q, k.transpose(-1, -2)) /
                std::sqrt(static_cast<double>(q.size(-1)));
  if (scores.scalar_type() != at::kDouble) {
    scores = scores.to(at::kFloat);
  }
  if (allowed.defined()) {
    // A finite bias: a token that may not attend to any token then attends to
    // all tokens.
    scores = scores + allowed.logical_not().to(scores.scalar_type()) * -30000.0;
  }
  const auto weights = at::softmax(scores, -1).to(v.scalar_type());
  return at::matmul(weights, v).transpose(1, 2).flatten(2);
}

inline at::Tensor causal(std::int64_t tokens) {
  return at::ones({tokens, tokens}, on_gpu().dtype(at::kBool)).tril();
}

struct Sizes {
  std::int64_t batch, tokens, width, inner, heads, key_heads;
};

inline const Sizes kSizes[] = {
    {4, 128, 768, 3072, 12, 12},
    {3, 40, 128, 512, 2, 2},
    {1, 8, 64, 256, 1, 1},
    {2, 333, 256, 1024, 4, 4},
};

inline std::string name_of(const Sizes& s) {
  return "B" + std::to_string(s.batch) + " T" + std::to_string(s.tokens) +
         " D" + std::to_string(s.width);
}

inline Tensors encoder_parameters(const Sizes& s) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.width));
  Tensors p;
  for (int i = 0; i < 4; ++i) {
    p.push_back(draw({s.width, s.width}, scale));
    p.push_back(draw({s.width}, 0.1));
  }
  const auto norm = [&] {
    p.push_back(rounded(draw({s.width}, 0.2) + 1.0));
    p.push_back(draw({s.width}, 0.2));
  };
  norm();
  p.push_back(draw({s.inner, s.width}, scale));
  p.push_back(draw({s.inner}, 0.1));
  p.push_back(draw({s.width, s.inner}, scale / 2));
  p.push_back(draw({s.width}, 0.1));
  norm();
  return p;
}

inline Compute plain_encoder(const Sizes& s, const at::Tensor& allowed) {
  return [=](const at::Tensor& x, const Tensors& p) {
    const auto part = [&](std::size_t i) {
      return heads_of(at::linear(x, p[i], p[i + 1]), s.heads);
    };
    const auto attended = attend(part(0), part(2), part(4), allowed);
    const auto y1 = at::layer_norm(
        at::linear(attended, p[6], p[7]) + x, {s.width}, p[8], p[9], 1e-12);
    const auto inner = at::gelu(at::linear(y1, p[10], p[11]));
    return at::layer_norm(
        at::linear(inner, p[12], p[13]) + y1, {s.width}, p[14], p[15], 1e-12);
  };
}

inline const std::vector<std::string> kEncoderNames = {
    "query.w",
    "query.b",
    "key.w",
    "key.b",
    "value.w",
    "value.b",
    "out.w",
    "out.b",
    "norm1.w",
    "norm1.b",
    "inner.w",
    "inner.b",
    "outer.w",
    "outer.b",
    "norm2.w",
    "norm2.b"};

// Returns the mask as a bias, which is 0 where a token may be attended to: an
// expanded view or, as for long sequences, a tensor with a row for each query.
inline at::Tensor as_bias(
    const at::Tensor& allowed_B11T, std::int64_t tokens, bool has_rows) {
  const auto bias = at::where(
                        allowed_B11T,
                        at::zeros({}, on_gpu()),
                        at::full({}, -30000.0, on_gpu()))
                        .to(at::kBFloat16)
                        .expand({-1, 1, tokens, tokens});
  return has_rows ? bias.contiguous() : bias;
}

inline double scale_of(const Sizes& s) {
  return 1.0 / std::sqrt(static_cast<double>(s.width / s.heads));
}

inline DecoderBlockOptions gelu_decoder_options(
    const Sizes& s, double dropout = 0.0) {
  return {
      .query_heads = s.heads,
      .key_heads = s.heads,
      .attention_scale = scale_of(s),
      .attention_dropout = dropout,
      .residual_dropout = dropout};
}

inline Tensors gelu_decoder_parameters(const Sizes& s) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.width));
  const auto norm_w = [&] { return rounded(draw({s.width}, 0.2) + 1.0); };
  return {
      norm_w(),
      draw({s.width}, 0.2),
      draw({s.width, 3 * s.width}, scale),
      draw({3 * s.width}, 0.1),
      draw({s.width, s.width}, scale),
      draw({s.width}, 0.1),
      norm_w(),
      draw({s.width}, 0.2),
      draw({s.width, s.inner}, scale),
      draw({s.inner}, 0.1),
      draw({s.inner, s.width}, scale / 2),
      draw({s.width}, 0.1)};
}

inline const std::vector<std::string> kGeluDecoderNames = {
    "norm1.w",
    "norm1.b",
    "qkv.w",
    "qkv.b",
    "out.w",
    "out.b",
    "norm2.w",
    "norm2.b",
    "inner.w",
    "inner.b",
    "outer.w",
    "outer.b"};

inline Compute plain_gelu_decoder(
    const Sizes& s, const at::Tensor& allowed = {}) {
  const auto visible = allowed.defined() ? allowed : causal(s.tokens);
  return [=](const at::Tensor& x, const Tensors& p) {
    const auto y1 = at::layer_norm(x, {s.width}, p[0], p[1], 1e-5);
    const auto qkv = (at::matmul(y1, p[2]) + p[3]).chunk(3, -1);
    const auto attended = attend(
        heads_of(qkv[0], s.heads),
        heads_of(qkv[1], s.heads),
        heads_of(qkv[2], s.heads),
        visible);
    const auto h = x + at::matmul(attended, p[4]) + p[5];
    const auto y2 = at::layer_norm(h, {s.width}, p[6], p[7], 1e-5);
    const auto inner = at::gelu(at::matmul(y2, p[8]) + p[9], "tanh");
    return h + at::matmul(inner, p[10]) + p[11];
  };
}

inline at::Tensor rotated(
    const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos.to(x.scalar_type()) +
         at::cat({-halves[1], halves[0]}, -1) * sin.to(x.scalar_type());
}

inline Compute plain_gated_decoder(
    const Sizes& s,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const at::Tensor& allowed = {}) {
  const auto visible = allowed.defined() ? allowed : causal(s.tokens);
  return [=](const at::Tensor& x, const Tensors& p) {
    const auto norm = [&](const at::Tensor& in, const at::Tensor& w) {
      const auto wide =
          in.scalar_type() == at::kDouble ? in : in.to(at::kFloat);
      return w * (wide * (wide.pow(2).mean(-1, true) + 1e-6).rsqrt())
                     .to(in.scalar_type());
    };
    const auto y1 = norm(x, p[0]);
    const std::int64_t groups = s.heads / s.key_heads;
    const auto q = rotated(heads_of(at::linear(y1, p[1]), s.heads), cos, sin);
    const auto k =
        rotated(heads_of(at::linear(y1, p[2]), s.key_heads), cos, sin);
    const auto v = heads_of(at::linear(y1, p[3]), s.key_heads);
    const auto attended = attend(
        q,
        k.repeat_interleave(groups, 1),
        v.repeat_interleave(groups, 1),
        visible);
    const auto h = x + at::linear(attended, p[4]);
    const auto y2 = norm(h, p[5]);
    return h + at::linear(
                   at::silu(at::linear(y2, p[6])) * at::linear(y2, p[7]), p[8]);
  };
}

inline const std::vector<std::string> kGatedDecoderNames = {
    "norm1", "query", "key", "value", "out", "norm2", "gate", "up", "down"};

struct Angles {
  at::Tensor cos, sin;
};

inline Angles angles_of(const Sizes& s) {
  const std::int64_t head = s.width / s.heads;
  const auto angles =
      at::arange(s.tokens, on_gpu()).unsqueeze(1) *
      at::pow(10000.0, -at::arange(0, head, 2, on_gpu()) / head);
  const auto both = at::cat({angles, angles}, -1).unsqueeze(0);
  return {both.cos().contiguous(), both.sin().contiguous()};
}

inline DecoderBlockOptions gated_decoder_options(
    const Sizes& s, const Angles& angles) {
  return {
      .norm = NormKind::rms_norm,
      .activation = ActivationKind::silu,
      .positions = PositionKind::rotary,
      .has_gated_mlp = true,
      .has_biases = false,
      .query_heads = s.heads,
      .key_heads = s.key_heads,
      .norm_eps = 1e-6,
      .attention_scale = scale_of(s),
      .cos = angles.cos,
      .sin = angles.sin};
}

inline Tensors gated_decoder_parameters(const Sizes& s) {
  const std::int64_t head = s.width / s.heads;
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.width));
  return {
      rounded(draw({s.width}, 0.2) + 1.0),
      draw({s.width, s.width}, scale),
      draw({s.key_heads * head, s.width}, scale),
      draw({s.key_heads * head, s.width}, scale),
      draw({s.width, s.width}, scale),
      rounded(draw({s.width}, 0.2) + 1.0),
      draw({s.inner, s.width}, scale),
      draw({s.inner, s.width}, scale),
      draw({s.width, s.inner}, scale)};
}

}  // namespace accelerate::cuda
