// SPDX-License-Identifier: Apache-2.0
// Fused blocks against plain LibTorch ops: the error against fp64 may be twice
// that of the same ops in bf16, for the result and for each gradient.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include "accelerate/error.h"
#include "cuda/blocks/adamw_step.h"
#include "cuda/blocks/embedding.h"
#include "cuda/blocks/encoder_block.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/gpt2_block.h"
#include "cuda/blocks/linear_cross_entropy.h"
#include "cuda/blocks/llama_block.h"
#include "cuda/blocks/norm_function.h"
#include "cuda/blocks/shadows.h"

namespace accelerate::cuda {
namespace {

using Tensors = std::vector<at::Tensor>;
using Compute = std::function<at::Tensor(const at::Tensor&, const Tensors&)>;

at::TensorOptions on_gpu() {
  return at::TensorOptions(at::kFloat).device(at::kCUDA);
}

double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const auto a = actual.to(at::kDouble);
  const auto e = expected.to(at::kDouble);
  const double norm = e.norm().item<double>();
  return (a - e).norm().item<double>() / (norm > 0 ? norm : 1.0);
}

struct Outcome {
  at::Tensor y;
  Tensors gradients;  // Of x, then of each parameter.
};

Outcome run(
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
  for (const auto& one : leaves) {
    outcome.gradients.push_back(one.grad());
  }
  return outcome;
}

// `plain` in fp64 is the truth, in bf16 the measure; `fused` keeps fp32
// parameters and gets x in fp32, whose values bf16 can hold.
void compare(
    const Compute& plain,
    const Compute& fused,
    const at::Tensor& x,
    const Tensors& parameters,
    const std::vector<std::string>& names) {
  const auto dy = at::randn_like(plain(x, parameters)).to(at::kBFloat16);
  const auto truth = run(plain, x, parameters, dy, at::kDouble);
  const auto usual = run(plain, x, parameters, dy, at::kBFloat16);
  const auto ours = run(fused, x, parameters, dy, at::kFloat);
  const auto check = [](const std::string& name,
                        const at::Tensor& a,
                        const at::Tensor& b,
                        const at::Tensor& t) {
    if (t.norm().item<double>() < 1e-9) {
      return;  // The bias of keys: its gradient is zero but for rounding.
    }
    const double mine = error_of(a, t);
    const double theirs = error_of(b, t);
    EXPECT_LE(mine, 2 * theirs + 1e-6) << name;
    std::printf("  %-12s ours %.2e plain %.2e\n", name.c_str(), mine, theirs);
  };
  check("y", ours.y, usual.y, truth.y);
  for (std::size_t i = 0; i < truth.gradients.size(); ++i) {
    check(
        i == 0 ? "dx" : names.at(i - 1),
        ours.gradients[i],
        usual.gradients[i],
        truth.gradients[i]);
  }
}

at::Tensor rounded(const at::Tensor& t) {
  return t.to(at::kBFloat16).to(at::kFloat);
}

at::Tensor draw(at::IntArrayRef sizes, double scale) {
  return rounded(at::randn(sizes, on_gpu()) * scale);
}

at::Tensor heads_of(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

// Step by step, so that it runs in fp64.
at::Tensor attend(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& allowed) {
  auto scores = at::matmul(q, k.transpose(-1, -2)) /
                std::sqrt(static_cast<double>(q.size(-1)));
  if (allowed.defined()) {
    scores = scores.masked_fill(allowed.logical_not(), -30000.0);
  }
  const auto weights =
      at::softmax(
          scores.scalar_type() == at::kDouble ? scores : scores.to(at::kFloat),
          -1)
          .to(v.scalar_type());
  return at::matmul(weights, v).transpose(1, 2).flatten(2);
}

at::Tensor causal(std::int64_t tokens) {
  return at::ones({tokens, tokens}, on_gpu().dtype(at::kBool)).tril();
}

struct Sizes {
  std::int64_t batch, tokens, width, inner, heads, key_heads;
};

const Sizes kSizes[] = {
    {4, 128, 768, 3072, 12, 12},
    {3, 40, 128, 512, 2, 2},
    {1, 8, 64, 256, 1, 1},
    {2, 333, 256, 1024, 4, 4},
};

std::string name_of(const Sizes& s) {
  return "B" + std::to_string(s.batch) + " T" + std::to_string(s.tokens) +
         " D" + std::to_string(s.width);
}

Tensors encoder_parameters(const Sizes& s) {
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

Compute plain_encoder(const Sizes& s, const at::Tensor& allowed) {
  return [=](const at::Tensor& x, const Tensors& p) {
    const auto part = [&](std::size_t i) {
      return heads_of(at::linear(x, p[i], p[i + 1]), s.heads);
    };
    const auto mixed = attend(part(0), part(2), part(4), allowed);
    const auto y1 = at::layer_norm(
        at::linear(mixed, p[6], p[7]) + x, {s.width}, p[8], p[9], 1e-12);
    const auto inner = at::gelu(at::linear(y1, p[10], p[11]));
    return at::layer_norm(
        at::linear(inner, p[12], p[13]) + y1, {s.width}, p[14], p[15], 1e-12);
  };
}

const std::vector<std::string> kEncoderNames = {
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

// Adds nothing where a token may be looked at. Expanded or, as masks of long
// sequences are, with a row for each query.
at::Tensor as_bias(
    const at::Tensor& allowed_B11T, std::int64_t tokens, bool has_rows) {
  const auto bias = at::where(
                        allowed_B11T,
                        at::zeros({}, on_gpu()),
                        at::full({}, -30000.0, on_gpu()))
                        .to(at::kBFloat16)
                        .expand({-1, 1, tokens, tokens});
  return has_rows ? bias.contiguous() : bias;
}

TEST(EncoderBlock, IsAsExactAsPlainOps) {
  for (const Sizes& s : kSizes) {
    for (const int padded : {0, 1, 2}) {
      SCOPED_TRACE(name_of(s));
      std::printf("encoder %s padded %d\n", name_of(s).c_str(), padded);
      at::Tensor allowed, bias;
      if (padded) {
        allowed =
            at::ones({s.batch, 1, 1, s.tokens}, on_gpu().dtype(at::kBool));
        allowed[0].slice(-1, s.tokens / 2).fill_(false);
        bias = as_bias(allowed, s.tokens, padded == 2);
      }
      compare(
          plain_encoder(s, allowed),
          [&](const at::Tensor& x, const Tensors& p) {
            return encoder_block(x, bias, p, {.heads = s.heads});
          },
          draw({s.batch, s.tokens, s.width}, 1.0),
          encoder_parameters(s),
          kEncoderNames);
    }
  }
}

TEST(EncoderBlock, AnEmptySequenceGivesNumbers) {
  const Sizes s = kSizes[1];
  auto allowed = at::ones({s.batch, 1, 1, s.tokens}, on_gpu().dtype(at::kBool));
  allowed[1].fill_(false);
  for (const bool has_rows : {false, true}) {
    auto x = draw({s.batch, s.tokens, s.width}, 1.0).requires_grad_(true);
    const auto y = encoder_block(
        x,
        as_bias(allowed, s.tokens, has_rows),
        encoder_parameters(s),
        {.heads = s.heads});
    y.sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  }
}

TEST(EncoderBlock, DropsTheSameInForwardAndBackward) {
  const Sizes s = kSizes[0];
  const auto p = encoder_parameters(s);
  const EncoderBlockOptions options = {
      .heads = s.heads, .attention_dropout = 0.1, .hidden_dropout = 0.1};
  auto generator = at::cuda::detail::getDefaultCUDAGenerator();
  const auto x = draw({s.batch, s.tokens, s.width}, 1.0);
  const auto forward = [&](const at::Tensor& at) {
    generator.set_current_seed(7);
    return encoder_block(at, {}, p, options).to(at::kDouble);
  };
  EXPECT_TRUE(at::equal(forward(x), forward(x)));
  // With the same masks, a small step along the gradient changes the result
  // as the gradient says.
  auto leaf = x.clone().requires_grad_(true);
  const auto weights = at::randn_like(x).to(at::kDouble);
  (forward(leaf) * weights).sum().backward();
  const auto direction = leaf.grad() / leaf.grad().norm();
  const double step = 4.0;
  const double after =
      (forward(x + direction * step) * weights).sum().item<double>();
  const double before =
      (forward(x - direction * step) * weights).sum().item<double>();
  const double expected = leaf.grad().norm().item<double>();
  EXPECT_NEAR((after - before) / (2 * step) / expected, 1.0, 0.05);
}

Tensors gpt2_parameters(const Sizes& s) {
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

const std::vector<std::string> kGpt2Names = {
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

Compute plain_gpt2(const Sizes& s) {
  return [=](const at::Tensor& x, const Tensors& p) {
    const auto y1 = at::layer_norm(x, {s.width}, p[0], p[1], 1e-5);
    const auto qkv = (at::matmul(y1, p[2]) + p[3]).chunk(3, -1);
    const auto mixed = attend(
        heads_of(qkv[0], s.heads),
        heads_of(qkv[1], s.heads),
        heads_of(qkv[2], s.heads),
        causal(s.tokens));
    const auto h = x + at::matmul(mixed, p[4]) + p[5];
    const auto y2 = at::layer_norm(h, {s.width}, p[6], p[7], 1e-5);
    const auto inner = at::gelu(at::matmul(y2, p[8]) + p[9], "tanh");
    return h + at::matmul(inner, p[10]) + p[11];
  };
}

TEST(Gpt2Block, IsAsExactAsPlainOps) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(name_of(s));
    std::printf("gpt2 %s\n", name_of(s).c_str());
    const double scale =
        1.0 / std::sqrt(static_cast<double>(s.width / s.heads));
    compare(
        plain_gpt2(s),
        [&](const at::Tensor& x, const Tensors& p) {
          return gpt2_block(
              x, {}, p, {.heads = s.heads, .attention_scale = scale});
        },
        draw({s.batch, s.tokens, s.width}, 1.0),
        gpt2_parameters(s),
        kGpt2Names);
  }
}

TEST(Gpt2Block, DropsTheSameInForwardAndBackward) {
  const Sizes s = kSizes[0];
  const auto p = gpt2_parameters(s);
  auto generator = at::cuda::detail::getDefaultCUDAGenerator();
  const auto x = draw({s.batch, s.tokens, s.width}, 1.0);
  const auto forward = [&](const at::Tensor& at) {
    generator.set_current_seed(7);
    return gpt2_block(
               at,
               {},
               p,
               {.heads = s.heads,
                .attention_dropout = 0.1,
                .residual_dropout = 0.1,
                .attention_scale = 0.125})
        .to(at::kDouble);
  };
  EXPECT_TRUE(at::equal(forward(x), forward(x)));
  auto leaf = x.clone().requires_grad_(true);
  const auto weights = at::randn_like(x).to(at::kDouble);
  (forward(leaf) * weights).sum().backward();
  const auto direction = leaf.grad() / leaf.grad().norm();
  const double step = 4.0;
  const double after =
      (forward(x + direction * step) * weights).sum().item<double>();
  const double before =
      (forward(x - direction * step) * weights).sum().item<double>();
  const double expected = leaf.grad().norm().item<double>();
  EXPECT_NEAR((after - before) / (2 * step) / expected, 1.0, 0.05);
}

at::Tensor turned(
    const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos.to(x.scalar_type()) +
         at::cat({-halves[1], halves[0]}, -1) * sin.to(x.scalar_type());
}

Compute plain_llama(
    const Sizes& s, const at::Tensor& cos, const at::Tensor& sin) {
  return [=](const at::Tensor& x, const Tensors& p) {
    const auto norm = [&](const at::Tensor& in, const at::Tensor& w) {
      const auto wide =
          in.scalar_type() == at::kDouble ? in : in.to(at::kFloat);
      return w * (wide * (wide.pow(2).mean(-1, true) + 1e-6).rsqrt())
                     .to(in.scalar_type());
    };
    const auto y1 = norm(x, p[0]);
    const std::int64_t groups = s.heads / s.key_heads;
    const auto q = turned(heads_of(at::linear(y1, p[1]), s.heads), cos, sin);
    const auto k =
        turned(heads_of(at::linear(y1, p[2]), s.key_heads), cos, sin);
    const auto v = heads_of(at::linear(y1, p[3]), s.key_heads);
    const auto mixed = attend(
        q,
        k.repeat_interleave(groups, 1),
        v.repeat_interleave(groups, 1),
        causal(s.tokens));
    const auto h = x + at::linear(mixed, p[4]);
    const auto y2 = norm(h, p[5]);
    return h + at::linear(
                   at::silu(at::linear(y2, p[6])) * at::linear(y2, p[7]), p[8]);
  };
}

const std::vector<std::string> kLlamaNames = {
    "norm1", "query", "key", "value", "out", "norm2", "gate", "up", "down"};

TEST(LlamaBlock, IsAsExactAsPlainOps) {
  const Sizes all[] = {
      {2, 128, 512, 1024, 8, 2},
      {2, 40, 256, 512, 4, 4},
      {1, 8, 64, 128, 1, 1}};
  for (const Sizes& s : all) {
    SCOPED_TRACE(name_of(s));
    std::printf("llama %s\n", name_of(s).c_str());
    const std::int64_t head = s.width / s.heads;
    const auto angles =
        at::arange(s.tokens, on_gpu()).unsqueeze(1) *
        at::pow(10000.0, -at::arange(0, head, 2, on_gpu()) / head);
    const auto both = at::cat({angles, angles}, -1).unsqueeze(0);
    const auto cos = both.cos().contiguous();
    const auto sin = both.sin().contiguous();
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.width));
    const Tensors p = {
        rounded(draw({s.width}, 0.2) + 1.0),
        draw({s.width, s.width}, scale),
        draw({s.key_heads * head, s.width}, scale),
        draw({s.key_heads * head, s.width}, scale),
        draw({s.width, s.width}, scale),
        rounded(draw({s.width}, 0.2) + 1.0),
        draw({s.inner, s.width}, scale),
        draw({s.inner, s.width}, scale),
        draw({s.width, s.inner}, scale)};
    compare(
        plain_llama(s, cos, sin),
        [&](const at::Tensor& x, const Tensors& q) {
          return llama_block(
              x,
              {},
              cos,
              sin,
              q,
              {.query_heads = s.heads, .key_heads = s.key_heads});
        },
        draw({s.batch, s.tokens, s.width}, 1.0),
        p,
        kLlamaNames);
  }
}

void compare_losses(
    std::int64_t rows, std::int64_t width, std::int64_t classes) {
  std::printf("loss %ld x %ld, %ld classes\n", rows, width, classes);
  auto labels = at::randint(classes, {rows}, on_gpu().dtype(at::kLong));
  labels.slice(0, 0, rows / 3).fill_(-100);
  const auto x = draw({rows, width}, 1.0);
  const auto w = draw({classes, width}, 0.1);
  const auto plain = [&](const at::Tensor& h, const Tensors& p) {
    const auto logits = at::linear(h, p[0]);
    return at::cross_entropy_loss(
        logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat),
        labels);
  };
  compare(
      plain,
      [&](const at::Tensor& h, const Tensors& p) {
        return linear_cross_entropy(h, p[0], labels);
      },
      x,
      {w},
      {"weight"});
}

TEST(LinearCrossEntropy, IsAsExactAsPlainOps) {
  compare_losses(512, 256, 5003);
  compare_losses(7, 64, 10);
  compare_losses(30000, 64, 50257);  // Several turns.
}

// As the library's own, also where nothing is left to take the mean of.
TEST(LinearCrossEntropy, NoLabelThatCountsGivesNanAndNoGradient) {
  for (const std::int64_t rows : {4, 0}) {
    const auto labels = at::full({rows}, -100, on_gpu().dtype(at::kLong));
    auto x = draw({rows, 64}, 1.0).requires_grad_(true);
    auto w = draw({32, 64}, 1.0).requires_grad_(true);
    const auto ours = linear_cross_entropy(x, w, labels);
    ours.backward();
    auto x2 = x.detach().clone().requires_grad_(true);
    const auto theirs = at::cross_entropy_loss(
        at::linear(x2, w.detach()), labels, {}, at::Reduction::Mean, -100);
    theirs.backward();
    EXPECT_TRUE(std::isnan(ours.item<double>()));
    EXPECT_TRUE(std::isnan(theirs.item<double>()));
    EXPECT_TRUE(at::equal(x.grad(), x2.grad())) << rows;
    EXPECT_FALSE(w.grad().any().item<bool>()) << rows;
  }
}

TEST(LinearCrossEntropy, AWrongLabelIsRefusedByTheNextStep) {
  auto x = draw({4, 64}, 1.0).requires_grad_(true);
  auto w = draw({32, 64}, 1.0).requires_grad_(true);
  const auto good = at::zeros({4}, on_gpu().dtype(at::kLong));
  for (const std::int64_t label : {32, -1}) {
    auto labels = good.clone();
    labels[2].fill_(label);
    const auto loss = linear_cross_entropy(x, w, labels);
    loss.backward();
    EXPECT_TRUE(std::isnan(loss.item<double>()));
    EXPECT_FALSE(x.grad().any().item<bool>());
    std::string told;
    try {
      linear_cross_entropy(x, w, good);
    } catch (const ArgumentError& error) {
      told = error.what();
    }
    EXPECT_NE(
        told.find(
            "a label of an earlier step is " + std::to_string(label) +
            ", and the vocabulary has 32 entries"),
        std::string::npos)
        << told;
    EXPECT_TRUE(std::isfinite(linear_cross_entropy(x, w, good).item<double>()));
  }
}

TEST(LinearCrossEntropy, RefusesLabelsThatItCannotRead) {
  const auto x = draw({4, 64}, 1.0);
  const auto w = draw({32, 64}, 1.0);
  const auto longs = on_gpu().dtype(at::kLong);
  EXPECT_THROW(
      linear_cross_entropy(x, w, at::zeros({3}, longs)), ArgumentError);
  EXPECT_THROW(
      linear_cross_entropy(x, w, at::zeros({4}, longs.device(at::kCPU))),
      ArgumentError);
}

TEST(Embedding, HasTheGradientOfTheLibrarys) {
  const auto table = draw({1000, 96}, 1.0).requires_grad_(true);
  const auto ids = at::randint(1000, {4, 77}, on_gpu().dtype(at::kLong));
  const auto dy = draw({4, 77, 96}, 1.0);
  accelerate::cuda::embedding(table, ids, 3).backward(dy.to(at::kBFloat16));
  const auto ours = table.grad();
  table.mutable_grad() = at::Tensor();
  at::embedding(table, ids, 3).backward(dy);
  EXPECT_LE(error_of(ours, table.grad()), 1e-5);
}

TEST(Normalize, IsAsExactAsPlainOps) {
  const auto x = draw({3, 5, 768}, 1.0);
  compare(
      [](const at::Tensor& in, const Tensors& p) {
        return at::layer_norm(in, {768}, p[0], p[1], 1e-5);
      },
      [](const at::Tensor& in, const Tensors& p) {
        return normalize(in, p[0], p[1], 1e-5);
      },
      x,
      {draw({768}, 1.0), draw({768}, 1.0)},
      {"weight", "shift"});
}

TEST(Shadows, FollowTheirParameters) {
  auto a = draw({4, 8}, 1.0).requires_grad_(true);
  auto b = draw({2, 8}, 1.0).requires_grad_(true);
  const auto joined = shadow_of(Tensors{a, b});
  EXPECT_TRUE(at::equal(joined, at::cat({a, b}).to(at::kBFloat16)));
  {
    at::NoGradGuard no_grad;
    a.add_(1.0);
  }
  EXPECT_FALSE(find_shadow(a).defined());
  EXPECT_TRUE(find_shadow(b).defined());
  EXPECT_EQ(shadow_of(Tensors{a, b}).data_ptr(), joined.data_ptr());
  EXPECT_TRUE(at::equal(joined, at::cat({a, b}).to(at::kBFloat16)));
}

TEST(Shadows, AreRefreshedByAdamW) {
  auto a = draw({33, 8}, 1.0).requires_grad_(true);
  const auto shadow = shadow_of(a);
  const auto before = shadow.clone();
  const auto version = a._version();
  adamw_step(
      {.parameters = {a},
       .gradients = {draw({33, 8}, 1.0)},
       .exp_avgs = {at::zeros_like(a)},
       .exp_avg_sqs = {at::zeros_like(a)},
       .steps = {at::ones({1}, on_gpu())},
       .lr_value = 0.1});
  EXPECT_FALSE(at::equal(shadow, before));
  EXPECT_TRUE(at::equal(shadow, a.to(at::kBFloat16)));
  EXPECT_TRUE(find_shadow(a).defined());
  EXPECT_GT(a._version(), version);
}

TEST(Gemm, MultipliesAndAdds) {
  for (const bool tuned : {false, true}) {
    set_gemm_tuning(tuned);
    const auto a = draw({37, 64}, 1.0).to(at::kBFloat16);
    const auto b = draw({72, 64}, 1.0).to(at::kBFloat16);
    const auto add = draw({37, 72}, 1.0).to(at::kBFloat16);
    const auto bias = draw({72}, 1.0).to(at::kBFloat16);
    const auto expected = at::matmul(a.to(at::kDouble), b.to(at::kDouble).t());
    EXPECT_LE(error_of(gemm(a, b, {.transpose_b = true}), expected), 3e-3);
    EXPECT_LE(
        error_of(
            gemm(a, b, {.transpose_b = true, .bias = bias, .add = add}),
            expected + bias.to(at::kDouble) + add.to(at::kDouble)),
        3e-3);
    const auto weight = gemm_weight_gradient(a, a);
    EXPECT_EQ(weight.scalar_type(), at::kFloat);
    EXPECT_LE(
        error_of(weight, at::matmul(a.to(at::kDouble).t(), a.to(at::kDouble))),
        1e-6);
    const auto total = weight.clone();
    gemm_into(total, a, a, {.transpose_a = true, .add = total});
    EXPECT_LE(error_of(total, weight * 2), 1e-6);
  }
}

}  // namespace
}  // namespace accelerate::cuda
