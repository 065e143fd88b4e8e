// SPDX-License-Identifier: Apache-2.0
// Compares fused blocks with plain LibTorch operators; see blocks_support.h.
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
#include "cuda/blocks/decoder_block.h"
#include "cuda/blocks/embedding.h"
#include "cuda/blocks/encoder_block.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/linear.h"
#include "cuda/blocks/linear_cross_entropy.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/norm_function.h"
#include "gpu/kernels/blocks_support.h"

namespace accelerate::cuda {
namespace {

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

TEST(EncoderBlock, ReturnsFiniteValuesForAnEmptySequence) {
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

TEST(EncoderBlock, UsesTheSameDropoutMaskInForwardAndBackward) {
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
  // With the same masks, a small step along the gradient changes the result as
  // the gradient predicts.
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

TEST(GeluDecoderBlock, IsAsExactAsPlainOps) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(name_of(s));
    std::printf("gelu decoder %s\n", name_of(s).c_str());
    compare(
        plain_gelu_decoder(s),
        [&](const at::Tensor& x, const Tensors& p) {
          return decoder_block(x, {}, p, gelu_decoder_options(s));
        },
        draw({s.batch, s.tokens, s.width}, 1.0),
        gelu_decoder_parameters(s),
        kGeluDecoderNames);
  }
}

TEST(GeluDecoderBlock, UsesTheSameDropoutMaskInForwardAndBackward) {
  const Sizes s = kSizes[0];
  const auto p = gelu_decoder_parameters(s);
  auto generator = at::cuda::detail::getDefaultCUDAGenerator();
  const auto x = draw({s.batch, s.tokens, s.width}, 1.0);
  const auto forward = [&](const at::Tensor& at) {
    generator.set_current_seed(7);
    return decoder_block(at, {}, p, gelu_decoder_options(s, 0.1))
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

TEST(GatedDecoderBlock, IsAsExactAsPlainOps) {
  const Sizes all[] = {
      {2, 128, 512, 1024, 8, 2},
      {2, 40, 256, 512, 4, 4},
      {1, 8, 64, 128, 1, 1}};
  for (const Sizes& s : all) {
    SCOPED_TRACE(name_of(s));
    std::printf("gated decoder %s\n", name_of(s).c_str());
    const Angles angles = angles_of(s);
    compare(
        plain_gated_decoder(s, angles.cos, angles.sin),
        [&](const at::Tensor& x, const Tensors& p) {
          return decoder_block(x, {}, p, gated_decoder_options(s, angles));
        },
        draw({s.batch, s.tokens, s.width}, 1.0),
        gated_decoder_parameters(s),
        kGatedDecoderNames);
  }
}

// Models call these functions before they use a block.
TEST(DecoderBlock, SupportsTwoKindsAndThrowsForOthers) {
  const Sizes s = kSizes[1];
  EXPECT_EQ(decoder_kind(gelu_decoder_options(s)), DecoderKind::gelu);
  DecoderBlockOptions gated = gated_decoder_options(s, {});
  EXPECT_EQ(decoder_kind(gated), DecoderKind::gated);
  EXPECT_TRUE(supports_decoder_block(gated, 64));
  EXPECT_FALSE(supports_decoder_block(gated, 65));
  gated.has_biases = true;
  EXPECT_EQ(decoder_kind(gated), DecoderKind::none);
  EXPECT_FALSE(supports_decoder_block(gated, 64));
  const auto x = draw({s.batch, s.tokens, s.width}, 1.0);
  EXPECT_THROW(
      decoder_block(x, {}, gated_decoder_parameters(s), gated), ArgumentError);
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
  compare_losses(30000, 64, 50257);  // Several chunks.
}

// The loss equals LibTorch's loss even if there are no labels to average over.
TEST(LinearCrossEntropy, IsNanWithZeroGradientsWhenAllLabelsAreIgnored) {
  for (const std::int64_t rows : {4, 0}) {
    const auto labels = at::full({rows}, -100, on_gpu().dtype(at::kLong));
    auto x = draw({rows, 64}, 1.0).requires_grad_(true);
    auto w = draw({32, 64}, 1.0).requires_grad_(true);
    const auto fused = linear_cross_entropy(x, w, labels);
    fused.backward();
    auto x2 = x.detach().clone().requires_grad_(true);
    const auto plain = at::cross_entropy_loss(
        at::linear(x2, w.detach()), labels, {}, at::Reduction::Mean, -100);
    plain.backward();
    EXPECT_TRUE(std::isnan(fused.item<double>()));
    EXPECT_TRUE(std::isnan(plain.item<double>()));
    EXPECT_TRUE(at::equal(x.grad(), x2.grad())) << rows;
    EXPECT_FALSE(w.grad().any().item<bool>()) << rows;
  }
}

TEST(LinearCrossEntropy, NextStepThrowsForAWrongLabel) {
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
    std::string message;
    try {
      linear_cross_entropy(x, w, good);
    } catch (const ArgumentError& error) {
      message = error.what();
    }
    EXPECT_NE(
        message.find(
            "a label in an earlier step is " + std::to_string(label) +
            ", but the vocabulary has 32 entries"),
        std::string::npos)
        << message;
    EXPECT_TRUE(std::isfinite(linear_cross_entropy(x, w, good).item<double>()));
  }
}

TEST(LinearCrossEntropy, ThrowsForLabelsOfTheWrongSizeOrDevice) {
  const auto x = draw({4, 64}, 1.0);
  const auto w = draw({32, 64}, 1.0);
  const auto longs = on_gpu().dtype(at::kLong);
  EXPECT_THROW(
      linear_cross_entropy(x, w, at::zeros({3}, longs)), ArgumentError);
  EXPECT_THROW(
      linear_cross_entropy(x, w, at::zeros({4}, longs.device(at::kCPU))),
      ArgumentError);
}

TEST(Embedding, HasTheSameGradientAsLibTorch) {
  const auto table = draw({1000, 96}, 1.0).requires_grad_(true);
  const auto ids = at::randint(1000, {4, 77}, on_gpu().dtype(at::kLong));
  const auto dy = draw({4, 77, 96}, 1.0);
  accelerate::cuda::embedding(table, ids, 3).backward(dy.to(at::kBFloat16));
  const auto fused = table.grad();
  table.mutable_grad() = at::Tensor();
  at::embedding(table, ids, 3).backward(dy);
  EXPECT_LE(error_of(fused, table.grad()), 1e-5);
}

// Embeddings of 40 words, 12 positions and 2 types, then a norm.
struct EmbeddingCase {
  at::Tensor ids, types;
  double dropout = 0.0;
  at::Tensor position_ids = {};
  bool has_types = true;

  // All parameters except the words, which are passed as x.
  Tensors parameters() const {
    return {
        draw({12, 96}, 1.0),
        draw({2, 96}, 1.0),
        draw({96}, 1.0),
        draw({96}, 1.0)};
  }
  at::Tensor plain(const at::Tensor& words, const Tensors& p) const {
    const auto type_rows =
        types.defined() ? at::embedding(p[1], types) : p[1].select(0, 0);
    const auto position_rows = position_ids.defined()
                                   ? at::embedding(p[0], position_ids, 1)
                                   : p[0].slice(0, 0, ids.size(1));
    // A type without a table contributes nothing, but has a gradient.
    return at::layer_norm(
        at::embedding(words, ids, 3) + position_rows +
            (has_types ? type_rows : type_rows * 0),
        {96},
        p[2],
        p[3],
        1e-5);
  }
  at::Tensor fused(const at::Tensor& words, const Tensors& p) const {
    const at::Tensor y = summed_embedding(
        {.words = words,
         .positions = p[0],
         .types = has_types ? p[1] : at::Tensor(),
         .weight = p[2],
         .shift = p[3],
         .ids = ids,
         .position_ids = position_ids,
         .type_ids = types,
         .padding_id = 3,
         .padding_position = 1,
         .eps = 1e-5,
         .dropout = dropout});
    return has_types || !y.defined() ? y : y + p[1].sum() * 0;
  }
};

at::Tensor draw_ids(std::int64_t below, at::IntArrayRef sizes) {
  return at::randint(below, sizes, on_gpu().dtype(at::kLong));
}

void compare_embedding_case(const EmbeddingCase& e) {
  compare(
      [&](const at::Tensor& x, const Tensors& p) { return e.plain(x, p); },
      [&](const at::Tensor& x, const Tensors& p) { return e.fused(x, p); },
      draw({40, 96}, 1.0),
      e.parameters(),
      {"positions", "types", "weight", "shift"});
}

TEST(SummedEmbedding, IsAsExactAsPlainOps) {
  compare_embedding_case({draw_ids(40, {5, 11}), draw_ids(2, {5, 11})});
  compare_embedding_case({draw_ids(40, {9, 12}), {}});
  compare_embedding_case({draw_ids(40, {1, 1}), {}});
  // Ids that are columns of a larger tensor.
  compare_embedding_case(
      {draw_ids(40, {4, 24}).slice(1, 0, 24, 2),
       draw_ids(2, {4, 24}).slice(1, 0, 24, 2)});
}

TEST(SummedEmbedding, LooksUpPositionIds) {
  compare_embedding_case(
      {.ids = draw_ids(40, {5, 11}),
       .types = draw_ids(2, {5, 11}),
       .position_ids = draw_ids(12, {5, 11})});
  compare_embedding_case(
      {.ids = draw_ids(40, {3, 20}),  // More tokens than positions.
       .types = {},
       .position_ids = draw_ids(12, {1, 20}).expand({3, 20})});
}

TEST(SummedEmbedding, NeedsNoTypes) {
  compare_embedding_case(
      {.ids = draw_ids(40, {5, 11}), .types = {}, .has_types = false});
  compare_embedding_case(
      {.ids = draw_ids(40, {5, 11}),
       .types = {},
       .position_ids = draw_ids(12, {5, 11}),
       .has_types = false});
}

TEST(SummedEmbedding, UsesTheSameDropoutMaskInForwardAndBackward) {
  const EmbeddingCase e = {draw_ids(40, {5, 11}), {}, 0.5};
  const auto words = draw({40, 96}, 1.0).requires_grad_(true);
  auto p = e.parameters();
  // After this, only dropped results are 0.
  p[3].add_(9.0).requires_grad_(true);
  const auto y = e.fused(words, p);
  const auto dy = draw({5, 11, 96}, 1.0);
  y.backward(dy.to(at::kBFloat16));
  const auto is_kept = y.detach().ne(0);
  EXPECT_NEAR(is_kept.to(at::kFloat).mean().item<double>(), 0.5, 0.05);
  EXPECT_LE(
      error_of(p[3].grad(), (dy * is_kept * 2).sum(at::IntArrayRef({0, 1}))),
      1e-2);
}

TEST(SummedEmbedding, HasZeroGradientsForAnEmptyBatch) {
  const EmbeddingCase e = {draw_ids(40, {0, 11}), {}};
  const auto words = draw({40, 96}, 1.0).requires_grad_(true);
  auto p = e.parameters();
  for (auto& parameter : p) {
    parameter.requires_grad_(true);
  }
  const auto y = e.fused(words, p);
  ASSERT_EQ(y.sizes(), at::IntArrayRef({0, 11, 96}));
  y.backward(at::zeros_like(y));
  EXPECT_EQ(words.grad().abs().max().item<double>(), 0.0);
  for (const auto& parameter : p) {
    EXPECT_EQ(parameter.grad().abs().max().item<double>(), 0.0);
  }
}

TEST(SummedEmbedding, IsUndefinedWhereThereIsNoKernel) {
  const EmbeddingCase e = {draw_ids(40, {2, 13}), {}};  // 12 positions.
  EXPECT_FALSE(e.fused(draw({40, 96}, 1.0), e.parameters()).defined());
}

void compare_linear(const at::Tensor& x, std::int64_t outputs) {
  compare(
      [](const at::Tensor& in, const Tensors& p) {
        return at::linear(in, p[0], p[1]);
      },
      [](const at::Tensor& in, const Tensors& p) {
        return accelerate::cuda::linear(in, p[0], p[1]);
      },
      x,
      {draw({outputs, x.size(-1)}, 0.1), draw({outputs}, 1.0)},
      {"weight", "bias"});
}

TEST(Linear, IsAsExactAsPlainOps) {
  compare_linear(draw({3, 5, 768}, 1.0), 64);
  compare_linear(draw({8, 768}, 1.0), 2);
  compare_linear(draw({300, 96}, 1.0), 3);
  compare_linear(draw({1, 33}, 1.0), 8);
  compare_linear(draw({7, 40}, 1.0), 13);
}

TEST(Linear, AcceptsStridedRows) {
  const auto all = draw({6, 5, 96}, 1.0).to(at::kBFloat16);
  const auto wide = draw({64, 96}, 0.1);
  EXPECT_LE(
      error_of(
          accelerate::cuda::linear(all.select(1, 0), wide, {}),
          at::linear(all.select(1, 0).to(at::kFloat), wide)),
      1e-2);
}

// Uses no cuBLAS GEMM, because racecheck does not support cuBLAS kernels.
TEST(NarrowLinear, AcceptsStridedRows) {
  const auto all =
      draw({40, 5, 96}, 1.0).to(at::kBFloat16).requires_grad_(true);
  const auto weight = draw({3, 96}, 0.1).requires_grad_(true);
  const auto dy = draw({40, 3}, 1.0);
  accelerate::cuda::linear(all.select(1, 2), weight, {}).backward(dy);
  const auto x = all.detach().select(1, 2).to(at::kFloat);
  EXPECT_LE(
      error_of(weight.grad(), (dy.unsqueeze(2) * x.unsqueeze(1)).sum(0)), 1e-5);
  EXPECT_LE(
      error_of(
          all.grad().select(1, 2), (dy.unsqueeze(2) * weight.detach()).sum(1)),
      1e-2);
  EXPECT_EQ(all.grad().select(1, 0).abs().max().item<double>(), 0.0);
}

TEST(Linear, HasZeroGradientsForAnEmptyBatch) {
  for (const std::int64_t outputs : {2, 64}) {
    const auto weight = draw({outputs, 96}, 0.1).requires_grad_(true);
    const auto bias = draw({outputs}, 0.1).requires_grad_(true);
    const auto y = accelerate::cuda::linear(draw({0, 96}, 1.0), weight, bias);
    ASSERT_EQ(y.sizes(), at::IntArrayRef({0, outputs}));
    y.backward(at::zeros_like(y));
    EXPECT_EQ(weight.grad().abs().max().item<double>(), 0.0);
    EXPECT_EQ(bias.grad().abs().max().item<double>(), 0.0);
  }
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

TEST(LowPrecisionCopies, FollowTheirParameters) {
  auto a = draw({4, 8}, 1.0).requires_grad_(true);
  auto b = draw({2, 8}, 1.0).requires_grad_(true);
  const auto concatenated = low_precision_copy_of(Tensors{a, b});
  EXPECT_TRUE(at::equal(concatenated, at::cat({a, b}).to(at::kBFloat16)));
  {
    at::NoGradGuard no_grad;
    a.add_(1.0);
  }
  EXPECT_FALSE(find_low_precision_copy(a).defined());
  EXPECT_TRUE(find_low_precision_copy(b).defined());
  EXPECT_EQ(
      low_precision_copy_of(Tensors{a, b}).data_ptr(), concatenated.data_ptr());
  EXPECT_TRUE(at::equal(concatenated, at::cat({a, b}).to(at::kBFloat16)));
}

TEST(LowPrecisionCopies, AreUpdatedByAdamW) {
  auto a = draw({33, 8}, 1.0).requires_grad_(true);
  const auto bf16_copy = low_precision_copy_of(a);
  const auto before = bf16_copy.clone();
  const auto version = a._version();
  adamw_step(
      {.parameters = {a},
       .gradients = {draw({33, 8}, 1.0)},
       .exp_avgs = {at::zeros_like(a)},
       .exp_avg_sqs = {at::zeros_like(a)},
       .steps = {at::ones({1}, on_gpu())},
       .lr_value = 0.1});
  EXPECT_FALSE(at::equal(bf16_copy, before));
  EXPECT_TRUE(at::equal(bf16_copy, a.to(at::kBFloat16)));
  EXPECT_TRUE(find_low_precision_copy(a).defined());
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
