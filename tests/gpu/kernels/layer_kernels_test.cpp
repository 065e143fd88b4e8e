// SPDX-License-Identifier: Apache-2.0
// Kernels for activations, column sums, QKV heads, embeddings and
// cross-entropy.
#include "cuda/kernels/activation.h"
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/cross_entropy.h"
#include "cuda/kernels/embedding.h"
#include "cuda/kernels/heads.h"
#include "gpu/kernels/kernel_support.h"

namespace accelerate::cuda::kernels {
namespace {

at::Tensor leaf(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).requires_grad_(true);
}

void check_gelu(
    std::int64_t rows, std::int64_t width, at::ScalarType type, bool is_tanh) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(width));
  const auto x = random({rows, width}, type) * 2;
  const auto bias = random({width});
  const auto y = poisoned({rows, width}, type);
  const BiasActivation work = {
      .type = type_of(type),
      .activation = is_tanh ? Activation::gelu_tanh : Activation::gelu_erf,
      .rows = rows,
      .width = width,
      .x = bytes(x),
      .bias = floats(bias)};
  bias_activation_forward(work, bytes(y), stream());
  const auto x64 = leaf(x), bias64 = leaf(bias);
  const auto expected = at::gelu(x64 + bias64, is_tanh ? "tanh" : "none");
  // For negative inputs the result is small, but not the rounding error of the
  // input.
  const double magnification =
      rows > 0 ? ((x64 + bias64).norm() / expected.norm()).item<double>() : 1.0;
  EXPECT_CLOSE(
      y,
      expected,
      bound_of(type, x.numel()) + 20 * rounding_of(at::kFloat) * magnification);

  const auto dy = random({rows, width}, type);
  expected.backward(dy.to(at::kDouble));
  const auto dx = poisoned({rows, width}, type);
  const auto d_bias = poisoned({width});
  const auto workspace = poisoned({column_sum_workspace(rows, width)});
  bias_activation_backward(
      work, bytes(dy), bytes(dx), floats(workspace), stream());
  finish_column_sum(rows, width, floats(workspace), floats(d_bias), stream());
  EXPECT_CLOSE(dx, x64.grad(), bound_of(type, x.numel()));
  EXPECT_CLOSE(d_bias, bias64.grad(), sum_bound(x64.grad()));
}

void check_swiglu(std::int64_t rows, std::int64_t width, at::ScalarType type) {
  const auto both = random({rows, 2 * width}, type) * 2;
  const auto y = poisoned({rows, width}, type);
  swiglu_forward(type_of(type), bytes(both), bytes(y), rows, width, stream());
  const auto both64 = leaf(both);
  const auto expected =
      at::silu(both64.slice(1, 0, width)) * both64.slice(1, width);
  EXPECT_CLOSE(y, expected, bound_of(type, y.numel()));
  const auto dy = random({rows, width}, type);
  expected.backward(dy.to(at::kDouble));
  const auto d = poisoned({rows, 2 * width}, type);
  swiglu_backward(
      type_of(type), bytes(both), bytes(dy), bytes(d), rows, width, stream());
  EXPECT_CLOSE(d, both64.grad(), bound_of(type, y.numel()));
}

TEST(ActivationKernel, Gelu) {
  for (const auto type : activation_types()) {
    for (const bool is_tanh : {false, true}) {
      check_gelu(33, 3072, type, is_tanh);
      check_gelu(300, 264, type, is_tanh);
      check_gelu(17, 101, type, is_tanh);
      check_gelu(1, 8, type, is_tanh);
      check_gelu(0, 8, type, is_tanh);
    }
  }
  check_gelu(65536, 256, at::kBFloat16, false);
}

TEST(ActivationKernel, Swiglu) {
  for (const auto type : activation_types()) {
    check_swiglu(33, 512, type);
    check_swiglu(5, 13, type);
    check_swiglu(0, 8, type);
  }
  check_swiglu(65536, 128, at::kBFloat16);
}

TEST(ColumnSumKernel, SumsEveryRow) {
  for (const auto type : activation_types()) {
    for (const std::int64_t rows : {0, 1, 8, 65, 3000}) {
      for (const std::int64_t width : {1, 9, 768, 2304}) {
        const auto wide = random({rows, width + 8}, type);
        const auto x = wide.slice(1, 0, width);
        const auto out = poisoned({width});
        const auto workspace = poisoned({column_sum_workspace(rows, width)});
        column_sum(
            type_of(type),
            bytes(x),
            rows,
            width,
            width + 8,
            floats(out),
            floats(workspace),
            stream());
        const auto x64 = x.to(at::kDouble);
        EXPECT_CLOSE(out, x64.sum(0), std::max(1e-5, sum_bound(x64)));
      }
    }
  }
}

struct HeadCase {
  std::int64_t batch, tokens;
  int queries, keys, width;
  at::ScalarType type;
  bool per_sequence = false;
};

HeadSizes sizes_of(const HeadCase& c) {
  return {type_of(c.type), c.batch, c.tokens, c.queries, c.keys, c.width};
}

at::Tensor rotated(
    const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
}

HeadsView view_of(const at::Tensor& t) {
  return {t.data_ptr(), t.stride(0), t.stride(1), t.stride(2)};
}

void check_heads(const HeadCase& c) {
  const int heads = c.queries + 2 * c.keys;
  const auto qkv = random({c.batch, c.tokens, heads, c.width}, c.type);
  const std::int64_t tables = c.per_sequence ? c.batch : 1;
  const auto cos = random({tables, c.tokens, c.width});
  const auto sin = random({tables, c.tokens, c.width});
  const RotaryEmbedding rotary = {
      floats(cos), floats(sin), c.per_sequence ? c.tokens * c.width : 0};
  const auto qkv64 = leaf(qkv);
  const auto in_heads = qkv64.transpose(1, 2);  // shape [B, heads, T, K]
  const auto cos64 = cos.to(at::kDouble).unsqueeze(1);
  const auto sin64 = sin.to(at::kDouble).unsqueeze(1);
  const auto q = rotated(in_heads.slice(1, 0, c.queries), cos64, sin64);
  const auto k =
      rotated(in_heads.slice(1, c.queries, c.queries + c.keys), cos64, sin64);
  const auto v = in_heads.slice(1, c.queries + c.keys);
  const auto expected = at::cat({q, k, v}, 1);

  const auto result = qkv.clone();
  apply_rotary_embedding(sizes_of(c), bytes(result), rotary, stream());
  EXPECT_CLOSE(result, expected.transpose(1, 2), bound_of(c.type));

  // Query gradients are ordered by token, key gradients by head.
  const auto dq =
      random({c.batch, c.tokens, c.queries, c.width}, c.type).transpose(1, 2);
  const auto dk = random({c.batch, c.keys, c.tokens, c.width}, c.type);
  const auto dv =
      random({c.batch, c.tokens, c.keys, c.width}, c.type).transpose(1, 2);
  expected.backward(at::cat({dq, dk, dv}, 1).to(at::kDouble));
  const auto d = poisoned({c.batch, c.tokens, heads, c.width}, c.type);
  pack_gradients(
      sizes_of(c),
      view_of(dq),
      view_of(dk),
      view_of(dv),
      rotary,
      bytes(d),
      stream());
  EXPECT_CLOSE(d, qkv64.grad(), bound_of(c.type));
  const auto plain = poisoned({c.batch, c.tokens, heads, c.width}, c.type);
  pack_gradients(
      sizes_of(c),
      view_of(dq),
      view_of(dk),
      view_of(dv),
      {},
      bytes(plain),
      stream());
  EXPECT_CLOSE(plain, at::cat({dq, dk, dv}, 1).transpose(1, 2), 0.0);
}

void check_sums(const HeadCase& c) {
  SCOPED_TRACE(
      std::to_string(c.batch) + "x" + std::to_string(c.tokens) + " " +
      c10::toString(c.type));
  const int heads = c.queries + 2 * c.keys;
  const auto heads_of = [&](int count) {
    return random({c.batch, c.tokens, count, c.width}, c.type).transpose(1, 2);
  };
  const auto dq = heads_of(c.queries);
  const auto dk = heads_of(c.keys);
  const auto dv = heads_of(c.keys);
  const std::int64_t rows = c.batch * c.tokens;
  const std::int64_t width = static_cast<std::int64_t>(heads) * c.width;
  const auto d = poisoned({rows, width}, c.type);
  const auto workspace = poisoned({column_sum_workspace(rows, width)});
  const auto sums = poisoned({width});
  ASSERT_TRUE(pack_and_sum_gradients(
      sizes_of(c),
      view_of(dq),
      view_of(dk),
      view_of(dv),
      bytes(d),
      floats(workspace),
      stream()));
  finish_column_sum(rows, width, floats(workspace), floats(sums), stream());
  const auto expected =
      at::cat({dq, dk, dv}, 1).transpose(1, 2).reshape({rows, width});
  EXPECT_CLOSE(d, expected, 0.0);
  if (rows > 0) {
    const auto expected64 = expected.to(at::kDouble);
    EXPECT_CLOSE(sums, expected64.sum(0), sum_bound(expected64));
  }
}

TEST(HeadsKernel, PacksAndSums) {
  for (const auto type : activation_types()) {
    check_sums({2, 7, 4, 2, 64, type});
    check_sums({1, 1, 1, 1, 128, type});
    check_sums({5, 300, 3, 1, 16, type});
    check_sums({0, 3, 2, 1, 64, type});
  }
  check_sums({16, 1024, 16, 16, 64, at::kBFloat16});
}

TEST(HeadsKernel, DeclinesViewsWithoutAUniformRowStride) {
  const HeadCase c = {2, 7, 4, 4, 64, at::kBFloat16};
  const auto by_token = random({2, 7, 4, 64}, c.type).transpose(1, 2);
  const auto by_head = random({2, 4, 7, 64}, c.type);
  const auto d = poisoned({14, 768}, c.type);
  const auto workspace = poisoned({column_sum_workspace(14, 768)});
  EXPECT_FALSE(pack_and_sum_gradients(
      sizes_of(c),
      view_of(by_token),
      view_of(by_head),
      view_of(by_token),
      bytes(d),
      floats(workspace),
      stream()));
  EXPECT_TRUE(d.isnan().all().item<bool>());
}

TEST(HeadsKernel, RotatesAndPacks) {
  for (const auto type : activation_types()) {
    check_heads({2, 7, 4, 2, 64, type});
    check_heads({3, 5, 4, 4, 64, type, true});
    check_heads({1, 1, 1, 1, 128, type});
    check_heads({2, 3, 3, 1, 10, type});
    check_heads({0, 3, 2, 1, 64, type});
  }
  check_heads({32, 2048, 2, 1, 64, at::kBFloat16});
}

void check_embedding(
    std::int64_t count,
    std::int64_t rows,
    std::int64_t width,
    at::ScalarType type,
    const at::Tensor& ids,
    std::int64_t padding = -1) {
  SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(rows));
  const auto dy = random({count, width}, type);
  const auto bytes_needed = embedding_workspace_bytes(count, rows, width);
  const auto workspace =
      at::empty({static_cast<std::int64_t>(bytes_needed)}, on_gpu(at::kByte));
  const auto run = [&] {
    const auto d = at::zeros({rows, width}, on_gpu());
    EXPECT_EQ(
        embedding_backward(
            {.type = type_of(type),
             .ids = ids.data_ptr<std::int64_t>(),
             .dy = bytes(dy),
             .count = count,
             .rows = rows,
             .width = width,
             .padding_id = padding,
             .d_table = floats(d),
             .workspace = bytes(workspace),
             .workspace_bytes = bytes_needed},
            stream()),
        cudaSuccess);
    return d;
  };
  const auto d = run();
  auto expected = at::zeros({rows, width}, on_gpu(at::kDouble));
  expected.index_add_(0, ids, dy.to(at::kDouble));
  if (padding >= 0) {
    expected[padding].zero_();
  }
  EXPECT_CLOSE(d, expected, 1e-5);
  EXPECT_TRUE(at::equal(d, run())) << "a second run gives other bits";
}

at::Tensor draw_ids(std::int64_t count, std::int64_t rows) {
  return at::randint(rows, {count}, on_gpu(at::kLong));
}

TEST(EmbeddingKernel, SumsTheGradientsOfEachId) {
  for (const auto type : activation_types()) {
    check_embedding(1000, 50, 96, type, draw_ids(1000, 50));
    check_embedding(1000, 30522, 100, type, draw_ids(1000, 30522), 0);
    check_embedding(500, 2, 130, type, draw_ids(500, 2), 1);
    check_embedding(1, 3, 8, type, draw_ids(1, 3));
    check_embedding(0, 3, 8, type, draw_ids(0, 3));
    check_embedding(640, 1, 768, type, draw_ids(640, 1));
  }
  check_embedding(65536, 50257, 768, at::kBFloat16, draw_ids(65536, 50257));
  check_embedding(65536, 2, 768, at::kBFloat16, draw_ids(65536, 2));
}

TEST(EmbeddingKernel, SmallCases) {  // For compute-sanitizer.
  check_embedding(200, 5, 72, at::kBFloat16, draw_ids(200, 5), 3);
  check_embedding(130, 1000, 72, at::kFloat, draw_ids(130, 1000));
}

void check_cross_entropy(
    std::int64_t rows,
    std::int64_t classes,
    std::int64_t stride,
    at::ScalarType type) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(classes));
  const auto buffer = random({rows, stride}, type) * 3;
  const auto logits = buffer.slice(1, 0, classes);
  const std::int64_t columns = classes + (stride - classes) / 2;
  const auto beyond_columns = buffer.slice(1, columns).clone();
  auto labels = at::randint(classes, {rows}, on_gpu(at::kLong));
  if (rows > 2) {
    labels[1].fill_(-100);
  }
  const auto logits64 = leaf(logits);
  const auto expected = at::cross_entropy_loss(logits64, labels);
  const auto counts = poisoned({2});
  const auto losses = poisoned({rows});
  const auto wrong = at::zeros({2}, on_gpu(at::kLong));
  count_labels(
      labels.data_ptr<std::int64_t>(),
      rows,
      classes,
      floats(counts),
      static_cast<WrongLabel*>(bytes(wrong)),
      stream());
  cross_entropy(
      {.type = type_of(type),
       .rows = rows,
       .classes = classes,
       .stride = stride,
       .columns = columns,
       .logits = bytes(buffer),
       .labels = labels.data_ptr<std::int64_t>(),
       .scale = floats(counts) + 1,
       .losses = floats(losses)},
      stream());
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  if (rows == 0) {
    return;
  }
  expected.backward();
  EXPECT_EQ(
      counts[0].item<double>(),
      static_cast<double>(rows > 2 ? rows - 1 : rows));
  EXPECT_FALSE(wrong.any().item<bool>());
  EXPECT_CLOSE(losses.sum(), expected, 1e-5);
  EXPECT_CLOSE(logits, logits64.grad(), bound_of(type) + 2e-6);
  EXPECT_TRUE(at::equal(buffer.slice(1, columns), beyond_columns));
  EXPECT_FALSE(buffer.slice(1, classes, columns).any().item<bool>());
}

TEST(CrossEntropyKernel, ComputesLossAndGradient) {
  for (const auto type : activation_types()) {
    check_cross_entropy(9, 50257, 50264, type);
    check_cross_entropy(9, 50257, 50257, type);
    check_cross_entropy(5, 2, 2, type);
    check_cross_entropy(1, 1000, 1000, type);
    check_cross_entropy(0, 16, 16, type);
  }
  check_cross_entropy(4096, 128256, 128256, at::kBFloat16);
}

TEST(CrossEntropyKernel, ReportsAWrongLabelAndZeroesTheGradient) {
  for (const std::int64_t label : {-1, -99, -101, 16, 50000}) {
    const auto logits = random({3000, 16}, at::kBFloat16);
    auto labels = at::randint(16, {3000}, on_gpu(at::kLong));
    labels[7].fill_(-100);
    labels[2500].fill_(label);
    const auto counts = poisoned({2});
    const auto losses = poisoned({3000});
    const auto wrong = at::zeros({2}, on_gpu(at::kLong));
    count_labels(
        labels.data_ptr<std::int64_t>(),
        3000,
        16,
        floats(counts),
        static_cast<WrongLabel*>(bytes(wrong)),
        stream());
    cross_entropy(
        {.type = Type::bf16,
         .rows = 3000,
         .classes = 16,
         .stride = 16,
         .columns = 16,
         .logits = bytes(logits),
         .labels = labels.data_ptr<std::int64_t>(),
         .scale = floats(counts) + 1,
         .losses = floats(losses)},
        stream());
    EXPECT_EQ(wrong[0].item<std::int64_t>(), 16);
    EXPECT_EQ(wrong[1].item<std::int64_t>(), label);
    EXPECT_TRUE(losses.isnan().all().item<bool>());
    EXPECT_FALSE(logits.any().item<bool>());
  }
}

TEST(CrossEntropyKernel, SmallCases) {  // For compute-sanitizer.
  check_cross_entropy(4, 5003, 5008, at::kBFloat16);
  check_cross_entropy(4, 77, 77, at::kBFloat16);
}

}  // namespace
}  // namespace accelerate::cuda::kernels
