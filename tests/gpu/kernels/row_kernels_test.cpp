// SPDX-License-Identifier: Apache-2.0
// Kernels that add to rows or move rows.
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/residual.h"
#include "cuda/kernels/unpad.h"
#include "gpu/kernels/kernel_support.h"

namespace accelerate::cuda::kernels {
namespace {

struct ResidualCase {
  std::int64_t rows;
  std::int64_t width;
  at::ScalarType type;
  float rate = 0.0F;
  bool with_bias = true;
  bool with_residual = true;
};

Dropout dropout_of(const ResidualCase& c) {
  return {c.rate, {nullptr, nullptr, 1234, 56}};
}

// The factors of dropout: 0, or one over the fraction that is kept.
at::Tensor factors_of(const ResidualCase& c) {
  const auto ones = at::ones({c.rows, c.width}, on_gpu(c.type));
  const auto kept = poisoned({c.rows, c.width}, c.type);
  residual_forward(
      {.type = type_of(c.type),
       .rows = c.rows,
       .width = c.width,
       .x = bytes(ones),
       .dropout = dropout_of(c)},
      bytes(kept),
      stream());
  const double rate = std::round(c.rate * 65536.0) / 65536.0;
  return kept.ne(0).to(at::kDouble) / (1.0 - rate);
}

void check_residual(const ResidualCase& c) {
  SCOPED_TRACE(
      std::to_string(c.rows) + "x" + std::to_string(c.width) + " " +
      c10::toString(c.type) + (c.rate > 0 ? " dropout" : ""));
  const auto x = random({c.rows, c.width}, c.type);
  const auto bias = c.with_bias ? random({c.width}) : at::Tensor();
  const auto residual =
      c.with_residual ? random({c.rows, c.width}, c.type) : at::Tensor();
  const auto factors = factors_of(c);
  const auto y = poisoned({c.rows, c.width}, c.type);
  const Residual work = {
      .type = type_of(c.type),
      .rows = c.rows,
      .width = c.width,
      .x = bytes(x),
      .bias = floats(bias),
      .residual = bytes(residual),
      .dropout = dropout_of(c)};
  residual_forward(work, bytes(y), stream());
  auto expected = x.to(at::kDouble);
  if (c.with_bias) {
    expected = expected + bias.to(at::kDouble);
  }
  expected = expected * factors;
  if (c.with_residual) {
    expected = expected + residual.to(at::kDouble);
  }
  EXPECT_CLOSE(y, expected, bound_of(c.type));

  const auto dy = random({c.rows, c.width}, c.type);
  const auto dx = poisoned({c.rows, c.width}, c.type);
  const auto workspace = poisoned({column_sum_workspace(c.rows, c.width)});
  const auto d_bias = poisoned({c.width});
  residual_backward(work, bytes(dy), bytes(dx), floats(workspace), stream());
  finish_column_sum(
      c.rows, c.width, floats(workspace), floats(d_bias), stream());
  const auto expected_dx = dy.to(at::kDouble) * factors;
  EXPECT_CLOSE(dx, expected_dx, bound_of(c.type));
  if (c.rows > 0) {
    // The kernel sums the values before or after they are rounded for storage.
    EXPECT_CLOSE(
        d_bias,
        expected_dx.sum(0),
        sum_bound(expected_dx) + 2 * bound_of(c.type));
  }
}

TEST(ResidualKernel, AddsAndDrops) {
  for (const auto type : activation_types()) {
    for (const float rate : {0.0F, 0.1F}) {
      check_residual({300, 768, type, rate});
      // The width is not a multiple of the vector size.
      check_residual({77, 100, type, rate});
      check_residual({1, 8, type, rate});
      check_residual({5, 1, type, rate});
      check_residual({0, 64, type, rate});
    }
    check_residual({33, 64, type, 0.5F, /*with_bias=*/false});
    check_residual({33, 64, type, 0.5F, true, /*with_residual=*/false});
  }
  check_residual({65536, 64, at::kBFloat16, 0.1F});
}

TEST(ResidualKernel, CanWorkInPlace) {
  const auto x = random({64, 96}, at::kBFloat16);
  const auto residual = random({64, 96}, at::kBFloat16);
  const auto expected = x.to(at::kDouble) + residual.to(at::kDouble);
  for (const bool over_x : {true, false}) {
    const auto a = x.clone();
    const auto b = residual.clone();
    residual_forward(
        {.rows = 64,
         .width = 96,
         .x = bytes(a),
         .residual = bytes(b),
         .dropout = {}},
        bytes(over_x ? a : b),
        stream());
    EXPECT_CLOSE(over_x ? a : b, expected, bound_of(at::kBFloat16));
  }
}

void check_unpad(const at::Tensor& mask_BT, std::int64_t rows) {
  const std::int64_t batch = mask_BT.size(0);
  const std::int64_t tokens = mask_BT.size(1);
  SCOPED_TRACE(
      std::to_string(batch) + "x" + std::to_string(tokens) + " in " +
      std::to_string(rows));
  constexpr std::int64_t kMaxLength = 128;
  const std::int64_t spare_sequences = (rows + kMaxLength - 1) / kMaxLength;
  const auto ints = on_gpu(at::kInt);
  const auto is_real = mask_BT.to(at::kCUDA);
  const auto source_rows = at::full({rows}, -7, ints);
  const auto packed_rows = at::full({batch * tokens}, -7, ints);
  const auto sequence_offsets =
      at::full({batch + spare_sequences + 1}, -7, ints);
  unpad(
      {.is_real = is_real.data_ptr<bool>(),
       .batch = batch,
       .tokens = tokens,
       .rows = rows,
       .spare_sequences = spare_sequences,
       .max_length = kMaxLength,
       .source_rows = source_rows.data_ptr<int>(),
       .packed_rows = packed_rows.data_ptr<int>(),
       .sequence_offsets = sequence_offsets.data_ptr<int>()},
      stream());
  std::vector<int> from, to, begin;
  const bool* const real = mask_BT.const_data_ptr<bool>();
  for (std::int64_t i = 0; i < batch * tokens; ++i) {
    if (i % tokens == 0) {
      begin.push_back(static_cast<int>(from.size()));
    }
    const bool fits = static_cast<std::int64_t>(from.size()) < rows;
    to.push_back(real[i] && fits ? static_cast<int>(from.size()) : -1);
    if (real[i] && fits) {
      from.push_back(static_cast<int>(i));
    }
  }
  for (std::int64_t i = 0; i < spare_sequences; ++i) {
    begin.push_back(static_cast<int>(std::min(
        static_cast<std::int64_t>(from.size()) + i * kMaxLength, rows)));
  }
  begin.push_back(static_cast<int>(rows));
  from.resize(static_cast<std::size_t>(rows), -1);
  EXPECT_TRUE(at::equal(source_rows.cpu(), at::tensor(from, at::kInt)));
  EXPECT_TRUE(at::equal(packed_rows.cpu(), at::tensor(to, at::kInt)));
  EXPECT_TRUE(at::equal(sequence_offsets.cpu(), at::tensor(begin, at::kInt)));
}

TEST(UnpadKernel, PacksRealTokens) {
  at::manual_seed(3);
  const auto draw = [](std::int64_t batch, std::int64_t tokens) {
    return at::rand({batch, tokens}).gt(0.4);
  };
  check_unpad(draw(32, 128), 4096);
  check_unpad(draw(3, 7), 64);
  check_unpad(draw(1, 1), 64);
  check_unpad(draw(7, 331), 1664);
  check_unpad(draw(512, 128), 65536);
  check_unpad(at::ones({4, 32}, at::kBool), 128);
  check_unpad(at::zeros({4, 32}, at::kBool), 64);
  check_unpad(at::ones({4, 32}, at::kBool), 64);  // Some tokens do not fit.
}

TEST(TakeRowsKernel, GathersRowsOrWritesZeros) {
  for (const auto type : activation_types()) {
    for (const std::int64_t width : {768, 72, 33, 1}) {
      const auto from = random({100, width}, type);
      const auto index = at::randint(-1, 100, {257}, on_gpu(at::kInt));
      const auto to = poisoned({257, width}, type);
      take_rows(
          type_of(type),
          bytes(from),
          index.data_ptr<int>(),
          257,
          width,
          bytes(to),
          stream());
      const auto expected = from.index_select(0, index.clamp_min(0))
                                .masked_fill(index.lt(0).unsqueeze(1), 0.0);
      EXPECT_TRUE(at::equal(to, expected)) << width;
    }
  }
  take_rows(Type::bf16, nullptr, nullptr, 0, 8, nullptr, stream());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace accelerate::cuda::kernels
