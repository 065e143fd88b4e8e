// SPDX-License-Identifier: Apache-2.0
// Compares attention for short sequences with plain operators. The error
// relative to fp64 may be up to twice the error of the plain operators in the
// kernel's type. The plain operators run on the CPU, because racecheck does not
// support cuBLAS GEMMs.
//
// Shapes: S sequences, T tokens, N rows, H heads, K channels of a head.
#include "cuda/kernels/short_attention.h"

#include <numeric>

#include "gpu/kernels/kernel_support.h"

namespace accelerate::cuda::kernels {
namespace {

struct Case {
  std::vector<int> lengths;
  int heads, head_dim;
  at::ScalarType type;
  bool by_offsets = false;
  bool has_bias = false;
  double dropout = 0.0;

  std::int64_t rows() const {
    return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  }
};

std::string name_of(const Case& c) {
  std::string name = at::toString(c.type);
  name += " H" + std::to_string(c.heads) + " K" + std::to_string(c.head_dim) +
          (c.by_offsets ? " offsets" : "") + (c.has_bias ? " bias" : "") + " T";
  for (const int length : c.lengths) {
    name += " " + std::to_string(length);
  }
  return name;
}

struct Inputs {
  at::Tensor qkv, key_bias, sequence_offsets, d_out;
};

Inputs draw(const Case& c) {
  Inputs in;
  const std::int64_t width = c.heads * c.head_dim;
  in.qkv = random({c.rows(), 3 * width}, c.type);
  in.d_out = random({c.rows(), width}, c.type);
  if (c.has_bias) {
    const std::int64_t tokens = c.lengths.front();
    in.key_bias = at::zeros(
        {static_cast<std::int64_t>(c.lengths.size()), tokens}, on_gpu(c.type));
    in.key_bias[0].slice(0, tokens / 2).fill_(-30000.0);
    if (c.lengths.size() > 1) {
      // This sequence may not attend to any token.
      in.key_bias[1].fill_(-30000.0);
    }
  }
  if (c.by_offsets) {
    std::vector<int> sequence_offsets = {0};
    for (const int length : c.lengths) {
      sequence_offsets.push_back(sequence_offsets.back() + length);
    }
    in.sequence_offsets = at::tensor(sequence_offsets, at::kInt).to(at::kCUDA);
  }
  return in;
}

ShortAttention work_of(const Case& c, const Inputs& in) {
  return {
      .type = type_of(c.type),
      .sequences = static_cast<std::int64_t>(c.lengths.size()),
      .tokens = c.by_offsets ? kShortTokens : c.lengths.front(),
      .heads = c.heads,
      .head_dim = c.head_dim,
      .sequence_offsets =
          c.by_offsets ? in.sequence_offsets.data_ptr<int>() : nullptr,
      .key_bias = bytes(in.key_bias),
      .key_bias_stride = c.has_bias ? in.key_bias.stride(0) : 0,
      .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim)),
      .dropout =
          {.rate = static_cast<float>(c.dropout),
           .random = {nullptr, nullptr, 77, 4}},
      .qkv = bytes(in.qkv)};
}

// Computes attention for one sequence with separate operators. The weights are
// multiplied by `factors_HTT`.
at::Tensor plain_sequence(
    const at::Tensor& rows,
    const Case& c,
    const at::Tensor& bias_T,
    const at::Tensor& factors_HTT) {
  const auto parts = rows.view({rows.size(0), 3, c.heads, c.head_dim});
  const auto heads = [&](int i) { return parts.select(1, i).transpose(0, 1); };
  auto scores = at::matmul(heads(0), heads(1).transpose(-1, -2)) /
                std::sqrt(static_cast<double>(c.head_dim));
  if (bias_T.defined()) {
    scores = scores + bias_T.to(scores.scalar_type());
  }
  auto weights =
      at::softmax(
          scores.scalar_type() == at::kDouble ? scores : scores.to(at::kFloat),
          -1)
          .to(rows.scalar_type());
  if (factors_HTT.defined()) {
    weights = weights * factors_HTT.to(rows.scalar_type());
  }
  return at::matmul(weights, heads(2))
      .transpose(0, 1)
      .reshape({rows.size(0), c.heads * c.head_dim});
}

struct Outcome {
  at::Tensor out, gradient;
  // The column sums over each sequence; set only by the kernel.
  at::Tensor sums;
};

Outcome plain(
    const Case& c,
    const Inputs& in,
    at::ScalarType type,
    const at::Tensor& factors_SHTT = {}) {
  const auto on_cpu = [](const at::Tensor& t) {
    return t.defined() ? t.to(at::kCPU) : t;
  };
  const auto key_bias = on_cpu(in.key_bias);
  const auto factors = on_cpu(factors_SHTT);
  const auto leaf = on_cpu(in.qkv).to(type).clone().requires_grad_(true);
  std::vector<at::Tensor> results;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < c.lengths.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    results.push_back(plain_sequence(
        leaf.narrow(0, row, c.lengths[i]),
        c,
        c.has_bias ? key_bias[index] : at::Tensor(),
        factors.defined() ? factors[index] : at::Tensor()));
    row += c.lengths[i];
  }
  const auto out = at::cat(results);
  out.backward(on_cpu(in.d_out).to(type));
  return {out.detach().to(at::kCUDA), leaf.grad().to(at::kCUDA), {}};
}

Outcome run_kernel(const Case& c, const Inputs& in) {
  const std::int64_t width = c.heads * c.head_dim;
  const ShortAttention work = work_of(c, in);
  Outcome o = {
      poisoned({c.rows(), width}, c.type),
      poisoned({c.rows(), 3 * width}, c.type),
      poisoned({static_cast<std::int64_t>(c.lengths.size()), 3 * width})};
  const auto log_sum = poisoned({c.rows(), c.heads});
  EXPECT_EQ(
      short_attention_forward(work, bytes(o.out), floats(log_sum), stream()),
      cudaSuccess);
  EXPECT_EQ(
      short_attention_backward(
          work,
          bytes(o.out),
          floats(log_sum),
          bytes(in.d_out),
          bytes(o.gradient),
          floats(o.sums),
          stream()),
      cudaSuccess);
  return o;
}

void check(
    const Case& c, const Inputs& in, const at::Tensor& factors_SHTT = {}) {
  SCOPED_TRACE(name_of(c));
  const auto reference = plain(c, in, at::kDouble, factors_SHTT);
  const auto baseline = plain(c, in, c.type, factors_SHTT);
  const auto result = run_kernel(c, in);
  const auto compare =
      [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& t) {
        return std::make_pair(error_of(a, t), error_of(b, t));
      };
  const auto out = compare(result.out, baseline.out, reference.out);
  EXPECT_LE(out.first, 2 * out.second + rounding_of(c.type));
  std::int64_t row = 0;
  for (std::size_t i = 0; i < c.lengths.size(); ++i) {
    const auto terms =
        result.gradient.narrow(0, row, c.lengths[i]).to(at::kDouble);
    EXPECT_LE(
        (result.sums[static_cast<std::int64_t>(i)] - terms.sum(0))
            .abs()
            .max()
            .item<double>(),
        1e-5 * (1 + terms.abs().sum(0).max().item<double>()));
    row += c.lengths[i];
  }
  const auto parts = [&](const at::Tensor& d, int i) {
    return d.view({-1, 3, c.heads * c.head_dim}).select(1, i);
  };
  for (int i = 0; i < 3; ++i) {
    const auto t = parts(reference.gradient, i);
    if (t.norm().item<double>() < 1e-9) {
      // With one token, the attention weight is always 1, so these gradients
      // are zero.
      EXPECT_LE(
          parts(result.gradient, i).to(at::kDouble).norm().item<double>(),
          0.05);
      continue;
    }
    const auto d =
        compare(parts(result.gradient, i), parts(baseline.gradient, i), t);
    EXPECT_LE(d.first, 2 * d.second + rounding_of(c.type)) << "part " << i;
  }
}

const std::vector<at::ScalarType> kTypes = {at::kHalf, at::kBFloat16};

TEST(ShortAttentionKernel, IsAsExactAsPlainOps) {
  at::manual_seed(1);
  for (const auto type : kTypes) {
    for (const int width : {32, 64}) {
      for (const int tokens : {1, 7, 16, 17, 40, 64, 65, 100, 127, 128}) {
        const Case c = {{tokens, tokens, tokens}, 2, width, type};
        check(c, draw(c));
        Case biased = c;
        biased.has_bias = true;
        if (tokens > 1) {
          check(biased, draw(biased));
        }
      }
    }
  }
}

TEST(ShortAttentionKernel, SupportsSequencesOfAnyLength) {
  at::manual_seed(2);
  for (const auto type : kTypes) {
    for (const int width : {32, 64}) {
      const Case c = {
          {5, 128, 0, 64, 1, 33, 90, 16, 127},
          3,
          width,
          type,
          /*by_offsets=*/true};
      check(c, draw(c));
    }
  }
}

TEST(ShortAttentionKernel, SupportsManyTokens) {
  at::manual_seed(3);
  const Case c = {std::vector<int>(512, 128), 1, 64, at::kBFloat16};
  check(c, draw(c));
}

TEST(ShortAttentionKernel, AcceptsAnEmptyBatchAndRejectsOtherHeadSizes) {
  const Case c = {{}, 2, 64, at::kBFloat16, /*by_offsets=*/true};
  Inputs in = draw(c);
  EXPECT_EQ(run_kernel(c, in).out.numel(), 0);
  ShortAttention work = work_of(c, in);
  work.head_dim = 48;
  EXPECT_EQ(
      short_attention_forward(work, nullptr, nullptr, stream()),
      cudaErrorInvalidValue);
}

// The factors by which dropout multiplies the weights. Queries of zeros give
// all keys the same weight, and one-hot values select one column each.
at::Tensor factors_of(const Case& c) {
  Inputs in = draw(c);
  const std::int64_t tokens = c.lengths.front();
  const auto sequences = static_cast<std::int64_t>(c.lengths.size());
  auto parts = in.qkv.view({sequences, tokens, 3, c.heads, c.head_dim});
  std::vector<at::Tensor> columns;
  for (std::int64_t key = 0; key < tokens; key += c.head_dim) {
    in.qkv.zero_();
    for (std::int64_t i = 0;
         i < std::min<std::int64_t>(c.head_dim, tokens - key);
         ++i) {
      parts.select(1, key + i).select(1, 2).select(-1, i).fill_(1.0);
    }
    columns.push_back(
        run_kernel(c, in).out.view({sequences, tokens, c.heads, c.head_dim}));
  }
  return at::cat(columns, -1)
             .slice(-1, 0, tokens)
             .permute({0, 2, 1, 3})
             .to(at::kDouble) *
         static_cast<double>(tokens);
}

TEST(ShortAttentionKernel, UsesTheSameDropoutMaskInForwardAndBackward) {
  at::manual_seed(4);
  for (const int tokens : {128, 50}) {
    const Case c = {
        {tokens, tokens, tokens, tokens}, 4, 64, at::kHalf, false, false, 0.25};
    const auto drawn = factors_of(c);
    const double count = static_cast<double>(drawn.numel());
    const double kept = drawn.gt(0.5).sum().item<double>() / count;
    EXPECT_NEAR(kept, 0.75, 5 * std::sqrt(0.75 * 0.25 / count));
    const auto factors = drawn.gt(0.5).to(at::kDouble) / 0.75;
    EXPECT_LE((drawn - factors).abs().max().item<double>(), 2e-3);
    // Adjacent tokens, heads and sequences have different masks.
    EXPECT_FALSE(at::equal(factors[0][0], factors[0][1]));
    EXPECT_FALSE(at::equal(factors[0][0], factors[1][0]));
    const auto rows = factors[0][0].sum(0);
    EXPECT_LT(rows.max().item<double>() / tokens, 1.5);
    check(c, draw(c), factors);
  }
}

}  // namespace
}  // namespace accelerate::cuda::kernels
