// SPDX-License-Identifier: Apache-2.0
// Fused blocks in edge cases: odd lengths, one token, 64k tokens, inputs that
// are not contiguous, masks of every kind.
#include "cuda/blocks/encoder_block.h"
#include "cuda/blocks/gpt2_block.h"
#include "cuda/blocks/llama_block.h"
#include "cuda/blocks/unpadding.h"
#include "gpu/kernels/blocks_support.h"

namespace accelerate::cuda {
namespace {

enum class Mask { none, padded, one_hidden };

// [B, 1, 1, T]; the first sequence is half as long, and with `one_hidden` the
// last has no token at all.
at::Tensor allowed_of(const Sizes& s, Mask mask) {
  if (mask == Mask::none) {
    return {};
  }
  auto allowed = at::ones({s.batch, 1, 1, s.tokens}, on_gpu().dtype(at::kBool));
  allowed[0].slice(-1, (s.tokens + 1) / 2).fill_(false);
  if (mask == Mask::one_hidden) {
    allowed[s.batch - 1].fill_(false);
  }
  return allowed;
}

// The same for causal attention: [B, 1, T, T]. `one_hidden` pads the last
// sequence on the left, where a token may attend to nothing.
at::Tensor causal_allowed_of(const Sizes& s, Mask mask) {
  if (mask == Mask::none) {
    return {};
  }
  auto allowed = allowed_of(s, Mask::padded);
  if (mask == Mask::one_hidden) {
    allowed[s.batch - 1].slice(-1, 0, s.tokens / 3).fill_(false);
  }
  return allowed.logical_and(causal(s.tokens));
}

// Stored as [T, B, D] with `is_transposed`.
at::Tensor input_of(const Sizes& s, bool is_transposed) {
  return is_transposed ? draw({s.tokens, s.batch, s.width}, 1.0).transpose(0, 1)
                       : draw({s.batch, s.tokens, s.width}, 1.0);
}

void check_encoder(
    const Sizes& s, Mask mask = Mask::none, bool is_transposed = false) {
  SCOPED_TRACE(name_of(s));
  std::printf("encoder %s\n", name_of(s).c_str());
  const auto allowed = allowed_of(s, mask);
  const auto bias = allowed.defined()
                        ? as_bias(allowed, s.tokens, s.tokens > 128)
                        : at::Tensor();
  compare(
      plain_encoder(s, allowed),
      [&](const at::Tensor& x, const Tensors& p) {
        return encoder_block(x, bias, p, {.heads = s.heads});
      },
      input_of(s, is_transposed),
      encoder_parameters(s),
      kEncoderNames);
}

void check_gpt2(
    const Sizes& s, Mask mask = Mask::none, bool is_transposed = false) {
  SCOPED_TRACE(name_of(s));
  std::printf("gpt2 %s\n", name_of(s).c_str());
  const auto allowed = causal_allowed_of(s, mask);
  const auto bias =
      allowed.defined() ? as_bias(allowed, s.tokens, true) : at::Tensor();
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.width / s.heads));
  compare(
      plain_gpt2(s, allowed),
      [&](const at::Tensor& x, const Tensors& p) {
        return gpt2_block(
            x, bias, p, {.heads = s.heads, .attention_scale = scale});
      },
      input_of(s, is_transposed),
      gpt2_parameters(s),
      kGpt2Names);
}

void check_llama(
    const Sizes& s, Mask mask = Mask::none, bool is_transposed = false) {
  SCOPED_TRACE(name_of(s));
  std::printf("llama %s\n", name_of(s).c_str());
  const auto allowed = causal_allowed_of(s, mask);
  const auto bias =
      allowed.defined() ? as_bias(allowed, s.tokens, true) : at::Tensor();
  const Angles angles = angles_of(s);
  compare(
      plain_llama(s, angles.cos, angles.sin, allowed),
      [&](const at::Tensor& x, const Tensors& p) {
        return llama_block(
            x,
            bias,
            angles.cos,
            angles.sin,
            p,
            {.query_heads = s.heads, .key_heads = s.key_heads});
      },
      input_of(s, is_transposed),
      llama_parameters(s),
      kLlamaNames);
}

TEST(EncoderShapes, SupportsOddLengthsAndOneToken) {
  check_encoder({3, 77, 128, 512, 2, 2});
  check_encoder({3, 131, 128, 512, 2, 2});
  check_encoder({5, 1, 64, 256, 1, 1});
  check_encoder({2, 9, 64, 256, 2, 2});
}

TEST(EncoderShapes, SupportsMasks) {
  for (const Mask mask : {Mask::padded, Mask::one_hidden}) {
    check_encoder({3, 77, 128, 512, 2, 2}, mask);
    check_encoder({3, 136, 128, 512, 2, 2}, mask);
    check_encoder({3, 131, 128, 512, 2, 2}, mask);
  }
}

TEST(EncoderShapes, SupportsNonContiguousInputs) {
  check_encoder({3, 40, 128, 512, 2, 2}, Mask::padded, /*is_transposed=*/true);
}

TEST(EncoderShapes, SupportsManyTokens) {
  check_encoder({512, 128, 64, 256, 1, 1});
  check_encoder({128, 512, 64, 256, 1, 1});
}

TEST(Gpt2Shapes, SupportsOddLengthsAndMasks) {
  check_gpt2({3, 77, 128, 512, 2, 2});
  for (const Mask mask : {Mask::padded, Mask::one_hidden}) {
    check_gpt2({3, 77, 128, 512, 2, 2}, mask);
    check_gpt2({3, 136, 128, 512, 2, 2}, mask);
  }
}

TEST(Gpt2Shapes, SupportsNonContiguousInputs) {
  check_gpt2({3, 40, 128, 512, 2, 2}, Mask::none, /*is_transposed=*/true);
}

TEST(Gpt2Shapes, SupportsManyTokens) {
  check_gpt2({64, 1024, 64, 256, 1, 1});
}

TEST(LlamaShapes, SupportsOddLengthsAndMasks) {
  check_llama({3, 77, 256, 512, 4, 2});
  for (const Mask mask : {Mask::padded, Mask::one_hidden}) {
    check_llama({3, 77, 256, 512, 4, 2}, mask);
    check_llama({3, 136, 256, 512, 4, 2}, mask);
  }
}

TEST(LlamaShapes, SupportsNonContiguousInputs) {
  check_llama({3, 40, 256, 512, 4, 2}, Mask::none, /*is_transposed=*/true);
}

TEST(LlamaShapes, SupportsManyTokens) {
  check_llama({64, 1024, 64, 256, 1, 1});
}

TEST(TakeRows, RestoresAnUnpaddedBatch) {
  const auto mask = at::rand({5, 33}, on_gpu()).gt(0.3);
  const std::int64_t rows = 192;
  const auto batch = unpad(mask.to(at::kLong), rows);
  auto x = draw({5 * 33, 40}, 1.0).to(at::kBFloat16).requires_grad_(true);
  const auto packed = take_rows(x, batch.source_rows, batch.packed_rows);
  ASSERT_EQ(packed.size(0), rows);
  const auto restored = take_rows(packed, batch.packed_rows, batch.source_rows);
  const auto real = mask.flatten().unsqueeze(1);
  EXPECT_TRUE(
      at::equal(restored, x.detach().masked_fill(real.logical_not(), 0)));
  restored.backward(at::ones_like(restored));
  EXPECT_TRUE(at::equal(x.grad(), real.to(at::kBFloat16).expand({-1, 40})));
}

}  // namespace
}  // namespace accelerate::cuda
