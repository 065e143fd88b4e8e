// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
std::vector<T> reduced(
    ReduceKind kind,
    c10::ScalarType type,
    const std::vector<std::vector<T>>& rows) {
  std::vector<const std::byte*> pointers;
  for (const auto& row : rows) {
    pointers.push_back(reinterpret_cast<const std::byte*>(row.data()));
  }
  std::vector<T> out(rows.front().size());
  auto* destination = reinterpret_cast<std::byte*>(out.data());
  reduce_rows(
      kind,
      type,
      {&destination, 1},
      pointers,
      static_cast<std::int64_t>(out.size()));
  return out;
}

TEST(ReduceRows, AddsFromLeftToRight) {
  // In any other order, the small number would not be lost.
  const std::vector<std::vector<float>> rows = {{1e8F}, {1.0F}, {-1e8F}};

  EXPECT_EQ(
      reduced(ReduceKind::sum, c10::ScalarType::Float, rows),
      std::vector<float>{0.0F});
}

TEST(ReduceRows, RoundsSixteenBitFloatsOnce) {
  // bf16 cannot represent 257, so adding 1 twice gives 256. In fp32, the sum is
  // 258.
  const c10::BFloat16 large = 256.0F;
  const c10::BFloat16 small = 1.0F;
  const std::vector<std::vector<c10::BFloat16>> rows = {
      {large}, {small}, {small}};

  const auto sum = reduced(ReduceKind::sum, c10::ScalarType::BFloat16, rows);

  EXPECT_EQ(static_cast<float>(sum[0]), 258.0F);
}

TEST(ReduceRows, AveragesHalvesWhoseSumOverflows) {
  const c10::Half large = 60'000.0F;
  const std::vector<std::vector<c10::Half>> rows = {{large}, {large}};

  const auto avg = reduced(ReduceKind::avg, c10::ScalarType::Half, rows);

  EXPECT_EQ(static_cast<float>(avg[0]), static_cast<float>(large));
}

class NanPropagates : public testing::TestWithParam<ReduceKind> {};

TEST_P(NanPropagates, FromEveryRank) {
  for (const auto& rows : std::vector<std::vector<std::vector<float>>>{
           {{kNan}, {1}, {2}}, {{1}, {kNan}, {2}}, {{1}, {2}, {kNan}}}) {
    EXPECT_TRUE(
        std::isnan(reduced(GetParam(), c10::ScalarType::Float, rows).front()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    ReduceRows,
    NanPropagates,
    testing::Values(
        ReduceKind::sum,
        ReduceKind::avg,
        ReduceKind::product,
        ReduceKind::min,
        ReduceKind::max),
    [](const auto& test) { return name_of(test.param); });

TEST(ReduceRows, WrapsIntegersAround) {
  using Limits = std::numeric_limits<std::int32_t>;
  const std::vector<std::vector<std::int32_t>> rows = {
      {Limits::max(), Limits::max(), 100'000}, {1, 2, 100'000}};

  EXPECT_EQ(
      reduced(ReduceKind::sum, c10::ScalarType::Int, rows),
      (std::vector<std::int32_t>{Limits::min(), Limits::min() + 1, 200'000}));
  EXPECT_EQ(
      reduced(ReduceKind::product, c10::ScalarType::Int, rows)[2],
      1'410'065'408);
}

TEST(ReduceRows, WrapsBytesAround) {
  const std::vector<std::vector<std::uint8_t>> rows = {{200}, {100}};

  EXPECT_EQ(reduced(ReduceKind::sum, c10::ScalarType::Byte, rows)[0], 44);
}

TEST(ReduceRows, TruncatesTheAverageOfIntegersTowardsZero) {
  const std::vector<std::vector<std::int64_t>> rows = {{-3, 3}, {0, 0}};

  EXPECT_EQ(
      reduced(ReduceKind::avg, c10::ScalarType::Long, rows),
      (std::vector<std::int64_t>{-1, 1}));
}

TEST(ReduceRows, CanWriteTheResultIntoAllRows) {
  std::vector<float> a(5000, 1.0F);
  std::vector<float> b(5000, 2.0F);
  const std::vector<std::byte*> outs = {
      reinterpret_cast<std::byte*>(a.data()),
      reinterpret_cast<std::byte*>(b.data())};
  const std::vector<const std::byte*> rows(outs.begin(), outs.end());

  reduce_rows(ReduceKind::sum, c10::ScalarType::Float, outs, rows, 5000);

  EXPECT_EQ(a, std::vector<float>(5000, 3.0F));
  EXPECT_EQ(b, a);
}

struct Unreducible {
  ReduceKind kind;
  c10::ScalarType type;
  std::string text;
};

class CheckReducible : public testing::TestWithParam<Unreducible> {};

TEST_P(CheckReducible, NamesTheType) {
  const auto& [kind, type, text] = GetParam();

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { check_reducible(kind, type); }), text);
}

INSTANTIATE_TEST_SUITE_P(
    ReduceRows,
    CheckReducible,
    testing::Values(
        Unreducible{
            ReduceKind::sum,
            c10::ScalarType::ComplexFloat,
            "tensors of type ComplexFloat cannot be reduced"},
        Unreducible{
            ReduceKind::max,
            c10::ScalarType::QInt8,
            "tensors of type QInt8 cannot be reduced"},
        Unreducible{
            ReduceKind::avg,
            c10::ScalarType::Bool,
            "bool tensors cannot be averaged"}),
    [](const auto& test) {
      return std::string(c10::toString(test.param.type));
    });

}  // namespace
}  // namespace accelerate
