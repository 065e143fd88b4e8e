// SPDX-License-Identifier: Apache-2.0
// Fused blocks in edge cases: odd lengths, one token, 64k tokens, inputs that
// are not contiguous, masks of every kind.
#include "cuda/blocks/decoder_block.h"
#include "cuda/blocks/encoder_block.h"
#include "cuda/blocks/unpadding.h"
#include "gpu/kernels/blocks_support.h"

namespace accelerate::cuda {
namespace {

enum class Mask { none, padded, one_hidden };

// Returns a mask [B, 1, 1, T]. The first sequence is half as long as the
// others. With `one_hidden`, the last sequence has no tokens.
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

// Returns a mask for causal attention, [B, 1, T, T]. With `one_hidden`, the
// last sequence is padded on the left, so its first tokens may not attend to
// any token.
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

// Returns an input [B, T, D]. With `is_transposed`, its memory has the layout
// [T, B, D].
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

void check_gelu_decoder(
    const Sizes& s, Mask mask = Mask::none, bool is_transposed = false) {
  SCOPED_TRACE(name_of(s));
  std::printf("gelu decoder %s\n", name_of(s).c_str());
  const auto allowed = causal_allowed_of(s, mask);
  const auto bias =
      allowed.defined() ? as_bias(allowed, s.tokens, true) : at::Tensor();
  compare(
      plain_gelu_decoder(s, allowed),
      [&](const at::Tensor& x, const Tensors& p) {
        return decoder_block(x, bias, p, gelu_decoder_options(s));
      },
      input_of(s, is_transposed),
      gelu_decoder_parameters(s),
      kGeluDecoderNames);
}

void check_gated_decoder(
    const Sizes& s, Mask mask = Mask::none, bool is_transposed = false) {
  SCOPED_TRACE(name_of(s));
  std::printf("gated decoder %s\n", name_of(s).c_str());
  const auto allowed = causal_allowed_of(s, mask);
  const auto bias =
      allowed.defined() ? as_bias(allowed, s.tokens, true) : at::Tensor();
  const Angles angles = angles_of(s);
  compare(
      plain_gated_decoder(s, angles.cos, angles.sin, allowed),
      [&](const at::Tensor& x, const Tensors& p) {
        return decoder_block(x, bias, p, gated_decoder_options(s, angles));
      },
      input_of(s, is_transposed),
      gated_decoder_parameters(s),
      kGatedDecoderNames);
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

TEST(GeluDecoderShapes, SupportsOddLengthsAndMasks) {
  check_gelu_decoder({3, 77, 128, 512, 2, 2});
  for (const Mask mask : {Mask::padded, Mask::one_hidden}) {
    check_gelu_decoder({3, 77, 128, 512, 2, 2}, mask);
    check_gelu_decoder({3, 136, 128, 512, 2, 2}, mask);
  }
}

TEST(GeluDecoderShapes, SupportsNonContiguousInputs) {
  check_gelu_decoder(
      {3, 40, 128, 512, 2, 2}, Mask::none, /*is_transposed=*/true);
}

TEST(GeluDecoderShapes, SupportsManyTokens) {
  check_gelu_decoder({64, 1024, 64, 256, 1, 1});
}

TEST(GatedDecoderShapes, SupportsOddLengthsAndMasks) {
  check_gated_decoder({3, 77, 256, 512, 4, 2});
  for (const Mask mask : {Mask::padded, Mask::one_hidden}) {
    check_gated_decoder({3, 77, 256, 512, 4, 2}, mask);
    check_gated_decoder({3, 136, 256, 512, 4, 2}, mask);
  }
}

TEST(GatedDecoderShapes, SupportsNonContiguousInputs) {
  check_gated_decoder(
      {3, 40, 256, 512, 4, 2}, Mask::none, /*is_transposed=*/true);
}

TEST(GatedDecoderShapes, SupportsManyTokens) {
  check_gated_decoder({64, 1024, 64, 256, 1, 1});
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
