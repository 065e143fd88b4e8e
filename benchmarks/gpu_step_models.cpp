// SPDX-License-Identifier: Apache-2.0
//
// Shapes: B batch, T tokens, D width.
#include "gpu_step_models.h"

#include <cmath>

#include <ATen/ATen.h>

#include "cuda/blocks/decoder_block.h"
#include "cuda/blocks/embedding.h"
#include "cuda/blocks/encoder_block.h"
#include "cuda/blocks/linear_cross_entropy.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/norm_function.h"

namespace {

using namespace accelerate::cuda;
using Tensors = std::vector<at::Tensor>;

at::TensorOptions on_gpu(at::ScalarType type = at::kFloat) {
  return at::TensorOptions(type).device(at::kCUDA);
}

// Creates parameters and collects them.
class Parameters {
 public:
  at::Tensor weight(at::IntArrayRef sizes) {
    return add(at::randn(sizes, on_gpu()) * 0.02);
  }
  at::Tensor ones(std::int64_t size) { return add(at::ones({size}, on_gpu())); }
  at::Tensor zeros(std::int64_t size) {
    return add(at::zeros({size}, on_gpu()));
  }
  Tensors all;

 private:
  at::Tensor add(const at::Tensor& tensor) {
    all.push_back(tensor.detach().requires_grad_(true));
    return all.back();
  }
};

at::Tensor draw_ids(std::int64_t vocabulary, at::IntArrayRef sizes) {
  return at::randint(vocabulary, sizes, on_gpu(at::kLong));
}

Tensors encoder_layer(Parameters& p, std::int64_t width, std::int64_t inner) {
  Tensors layer;
  const auto linear = [&](std::int64_t in, std::int64_t out) {
    layer.push_back(p.weight({out, in}));
    layer.push_back(p.zeros(out));
  };
  const auto norm = [&] {
    layer.push_back(p.ones(width));
    layer.push_back(p.zeros(width));
  };
  for (int i = 0; i < 4; ++i) {
    linear(width, width);
  }
  norm();
  linear(width, inner);
  linear(inner, width);
  norm();
  return layer;
}

Workload bert(std::int64_t batch, std::int64_t tokens, int steps) {
  constexpr std::int64_t kWidth = 768;
  constexpr double kDropout = 0.1;
  Parameters p;
  const auto words = p.weight({30522, kWidth});
  const auto positions = p.weight({512, kWidth});
  const auto types = p.weight({2, kWidth});
  const auto norm_w = p.ones(kWidth);
  const auto norm_b = p.zeros(kWidth);
  std::vector<Tensors> layers;
  for (int i = 0; i < 12; ++i) {
    layers.push_back(encoder_layer(p, kWidth, 3072));
  }
  const auto pooler_w = p.weight({kWidth, kWidth});
  const auto pooler_b = p.zeros(kWidth);
  const auto classes_w = p.weight({2, kWidth});
  const auto classes_b = p.zeros(2);
  const auto ids = draw_ids(30522, {batch, tokens});
  const auto mask_BT = at::ones({batch, tokens}, on_gpu(at::kLong));
  const auto labels = draw_ids(2, {batch});
  const auto loss = [=] {
    const auto bias = mask_BT.sub(1)
                          .to(at::kBFloat16)
                          .mul(30000)
                          .view({batch, 1, 1, tokens})
                          .expand({batch, 1, tokens, tokens});
    const auto fixed_TD = (positions.slice(0, 0, tokens) + types.slice(0, 0, 1))
                              .to(at::kBFloat16);
    auto hidden = dropout(
        normalize(
            accelerate::cuda::embedding(words, ids, 0) + fixed_TD,
            norm_w,
            norm_b,
            1e-12),
        kDropout);
    for (const Tensors& layer : layers) {
      hidden = encoder_block(
          hidden,
          bias,
          layer,
          {.heads = 12,
           .attention_dropout = kDropout,
           .hidden_dropout = kDropout});
    }
    const auto first = hidden.select(1, 0).to(at::kFloat);
    const auto pooled =
        dropout(at::linear(first, pooler_w, pooler_b).tanh(), kDropout)
            .to(at::kFloat);
    return at::cross_entropy_loss(
        at::linear(pooled, classes_w, classes_b), labels);
  };
  return {"", p.all, loss, batch, steps};
}

struct Gpt2Sizes {
  std::int64_t width, layers, heads;
  double dropout;
};

Workload gpt2(
    const Gpt2Sizes& s, std::int64_t batch, std::int64_t tokens, int steps) {
  constexpr std::int64_t kVocabulary = 50257;
  Parameters p;
  const auto words = p.weight({kVocabulary, s.width});
  const auto positions = p.weight({1024, s.width});
  std::vector<Tensors> layers;
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::int64_t d = s.width;
    layers.push_back(
        {p.ones(d),
         p.zeros(d),
         p.weight({d, 3 * d}),
         p.zeros(3 * d),
         p.weight({d, d}),
         p.zeros(d),
         p.ones(d),
         p.zeros(d),
         p.weight({d, 4 * d}),
         p.zeros(4 * d),
         p.weight({4 * d, d}),
         p.zeros(d)});
  }
  const auto norm_w = p.ones(s.width);
  const auto norm_b = p.zeros(s.width);
  const auto ids = draw_ids(kVocabulary, {batch, tokens});
  const auto next_ids =
      at::constant_pad_nd(ids.slice(1, 1), {0, 1}, -100).reshape({-1});
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.width / s.heads));
  const auto loss = [=] {
    auto hidden = dropout(
        accelerate::cuda::embedding(words, ids) +
            positions.slice(0, 0, tokens).to(at::kBFloat16),
        s.dropout);
    for (const Tensors& layer : layers) {
      hidden = decoder_block(
          hidden,
          {},
          layer,
          {.query_heads = s.heads,
           .key_heads = s.heads,
           .attention_scale = scale,
           .attention_dropout = s.dropout,
           .residual_dropout = s.dropout});
    }
    return linear_cross_entropy(
        normalize(hidden, norm_w, norm_b, 1e-5), words, next_ids);
  };
  return {"", p.all, loss, batch * tokens, steps};
}

Workload llama(std::int64_t batch, std::int64_t tokens, int steps) {
  constexpr std::int64_t kVocabulary = 128256, kWidth = 2048, kInner = 8192;
  constexpr std::int64_t kHead = 64, kKeys = 8;
  Parameters p;
  const auto words = p.weight({kVocabulary, kWidth});
  std::vector<Tensors> layers;
  for (int i = 0; i < 16; ++i) {
    layers.push_back(
        {p.ones(kWidth),
         p.weight({kWidth, kWidth}),
         p.weight({kKeys * kHead, kWidth}),
         p.weight({kKeys * kHead, kWidth}),
         p.weight({kWidth, kWidth}),
         p.ones(kWidth),
         p.weight({kInner, kWidth}),
         p.weight({kInner, kWidth}),
         p.weight({kWidth, kInner})});
  }
  const auto norm_w = p.ones(kWidth);
  const auto ids = draw_ids(kVocabulary, {batch, tokens});
  const auto next_ids =
      at::constant_pad_nd(ids.slice(1, 1), {0, 1}, -100).reshape({-1});
  const auto angles =
      at::arange(tokens, on_gpu()).unsqueeze(1) *
      at::pow(10000.0, -at::arange(0, kHead, 2, on_gpu()) / kHead);
  const auto both = at::cat({angles, angles}, -1).unsqueeze(0);
  const accelerate::DecoderBlockOptions options = {
      .norm = accelerate::NormKind::rms_norm,
      .activation = accelerate::ActivationKind::silu,
      .positions = accelerate::PositionKind::rotary,
      .has_gated_mlp = true,
      .has_biases = false,
      .query_heads = kWidth / kHead,
      .key_heads = kKeys,
      .norm_eps = 1e-6,
      .attention_scale = 1.0 / std::sqrt(static_cast<double>(kHead)),
      .cos = both.cos().contiguous(),
      .sin = both.sin().contiguous()};
  const auto loss = [=] {
    auto hidden = accelerate::cuda::embedding(words, ids);
    for (const Tensors& layer : layers) {
      hidden = decoder_block(hidden, {}, layer, options);
    }
    return linear_cross_entropy(
        normalize(hidden, norm_w, {}, 1e-6), words, next_ids);
  };
  return {"", p.all, loss, batch * tokens, steps};
}

}  // namespace

std::vector<WorkloadMaker> workloads() {
  const Gpt2Sizes small = {768, 12, 12, 0.1};
  const Gpt2Sizes plain = {768, 12, 12, 0.0};
  const Gpt2Sizes medium = {1024, 24, 16, 0.0};
  return {
      {"bert B8 T128", [] { return bert(8, 128, 60); }},
      {"bert B32 T128", [] { return bert(32, 128, 60); }},
      {"bert B256 T128", [] { return bert(256, 128, 20); }},
      {"gpt2 B32 T1024", [=] { return gpt2(small, 32, 1024, 20); }},
      {"gpt2 dropout 0 B32 T1024", [=] { return gpt2(plain, 32, 1024, 20); }},
      {"gpt2-350M dropout 0 B16 T1024",
       [=] { return gpt2(medium, 16, 1024, 20); }},
      {"llama B8 T2048", [] { return llama(8, 2048, 10); }}};
}
