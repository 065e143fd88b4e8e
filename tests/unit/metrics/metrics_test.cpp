// SPDX-License-Identifier: Apache-2.0
#include "accelerate/metrics.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

// Both libraries compute with doubles, but in a different order.
constexpr double kRounding = 1e-12;

const Json& golden() {
  static const Json json = Json::parse(
      read_file(ACCELERATE_GOLDEN "/metrics.json", std::size_t{1} << 20));
  return json;
}

Tensor integers(const Json& list) {
  std::vector<std::int64_t> values;
  for (const Json& element : list.as_array()) {
    values.push_back(element.as_integer());
  }
  return at::tensor(values, at::kLong);
}

Tensor reals(const Json& list) {
  std::vector<double> values;
  for (const Json& element : list.as_array()) {
    values.push_back(element.as_double());
  }
  return at::tensor(values, at::kDouble);
}

/// Adds all rows, in two batches if there are enough.
void add_in_parts(
    auto& metric, const Tensor& predictions, const Tensor& references) {
  const std::int64_t first = references.size(0) / 3;
  metric.add_batch(
      predictions.narrow(0, 0, first), references.narrow(0, 0, first));
  const std::int64_t rest = references.size(0) - first;
  metric.add_batch(
      predictions.narrow(0, first, rest), references.narrow(0, first, rest));
}

std::vector<Json> cases(const char* kind) {
  return golden().at(kind).as_array();
}

std::string name_of_case(const testing::TestParamInfo<Json>& info) {
  return info.param.at("name").as_string();
}

class ClassMetrics : public testing::TestWithParam<Json> {
 protected:
  Tensor predictions = integers(GetParam().at("predictions"));
  Tensor references = integers(GetParam().at("references"));
};

TEST_P(ClassMetrics, AccuracyMatchesScikitLearn) {
  Accuracy metric;
  add_in_parts(metric, predictions, references);

  EXPECT_NEAR(
      metric.compute(), GetParam().at("accuracy").as_double(), kRounding);
}

TEST_P(ClassMetrics, MatthewsCorrelationMatchesScikitLearn) {
  MatthewsCorrelation metric;
  add_in_parts(metric, predictions, references);

  EXPECT_NEAR(
      metric.compute(), GetParam().at("matthews").as_double(), kRounding);
}

TEST_P(ClassMetrics, F1MatchesScikitLearn) {
  for (const auto& [average, expected] : GetParam().at("f1").as_object()) {
    F1 metric(
        {.average = parse_average(average),
         .pos_label = GetParam().at("pos_label").as_integer()});
    add_in_parts(metric, predictions, references);

    const F1Scores scores = metric.compute();

    EXPECT_NEAR(
        scores.precision, expected.at(std::size_t{0}).as_double(), kRounding)
        << average;
    EXPECT_NEAR(scores.recall, expected.at(1).as_double(), kRounding)
        << average;
    EXPECT_NEAR(scores.f1, expected.at(2).as_double(), kRounding) << average;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, ClassMetrics, testing::ValuesIn(cases("classes")), name_of_case);

class NumberMetrics : public testing::TestWithParam<Json> {
 protected:
  void expect(double value, const char* key) const {
    const Json& expected = GetParam().at(key);
    if (expected.is_null()) {
      EXPECT_TRUE(std::isnan(value)) << value;
    } else {
      EXPECT_NEAR(value, expected.as_double(), kRounding);
    }
  }

  Tensor predictions = reals(GetParam().at("predictions"));
  Tensor references = reals(GetParam().at("references"));
};

TEST_P(NumberMetrics, PearsonCorrelationMatchesScipy) {
  PearsonCorrelation metric;
  add_in_parts(metric, predictions, references);

  expect(metric.compute(), "pearson");
}

TEST_P(NumberMetrics, SpearmanCorrelationMatchesScipy) {
  SpearmanCorrelation metric;
  add_in_parts(metric, predictions, references);

  expect(metric.compute(), "spearman");
}

INSTANTIATE_TEST_SUITE_P(
    Golden, NumberMetrics, testing::ValuesIn(cases("numbers")), name_of_case);

class TokenMetrics : public testing::TestWithParam<Json> {};

TEST_P(TokenMetrics, PerplexityMatchesLogLoss) {
  const auto references = integers(GetParam().at("references"));
  std::vector<Tensor> rows;
  for (const Json& row : GetParam().at("logits").as_array()) {
    rows.push_back(reals(row));
  }
  const auto logits = at::stack(rows);
  Perplexity metric;
  add_in_parts(metric, logits, references);

  EXPECT_NEAR(metric.compute(), GetParam().at("perplexity").as_double(), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Golden, TokenMetrics, testing::ValuesIn(cases("tokens")), name_of_case);

TEST(Metrics, AcceptAnyShapeAndType) {
  Accuracy metric;
  metric.add_batch(
      at::tensor({1, 0, 1, 1}, at::kInt).view({2, 2}),
      at::tensor({1, 1, 1, 1}, at::kByte).view({2, 2}));
  metric.add_batch(at::tensor({1}).to(at::kBool), at::tensor({0}, at::kLong));
  metric.add_batch(at::empty({0}, at::kLong), at::empty({0}, at::kLong));

  EXPECT_DOUBLE_EQ(metric.compute(), 0.6);
}

TEST(Metrics, RestartAfterCompute) {
  Accuracy metric;
  metric.add_batch(at::tensor({1, 1}), at::tensor({0, 0}));
  EXPECT_EQ(metric.compute(), 0.0);

  metric.add_batch(at::tensor({1}), at::tensor({1}));

  EXPECT_EQ(metric.compute(), 1.0);
  EXPECT_EQ(
      message_of<StateError>([&] { metric.compute(); }),
      "`Accuracy` got 0 rows, but needs at least 1");
}

TEST(Metrics, F1UsesZeroDivisionForAMissingClass) {
  F1 metric({.zero_division = 1});
  metric.add_batch(at::tensor({0, 0}), at::tensor({0, 0}));

  const F1Scores scores = metric.compute();

  EXPECT_EQ(scores.precision, 1.0);
  EXPECT_EQ(scores.recall, 1.0);
  EXPECT_EQ(scores.f1, 1.0);
}

TEST(Metrics, PerplexityCombinesMeanLosses) {
  Perplexity metric;
  metric.add_loss(at::tensor(2.0), 3);
  metric.add_loss(at::tensor(1.0), 1);
  metric.add_loss(at::tensor(NAN), 0);

  EXPECT_NEAR(metric.compute(), std::exp(1.75), kRounding);
}

TEST(Metrics, CorrelationsOfNanAreNan) {
  SpearmanCorrelation spearman;
  spearman.add_batch(at::tensor({1.0, NAN, 3.0}), at::tensor({1.0, 2.0, 3.0}));
  PearsonCorrelation pearson;
  pearson.add_batch(at::tensor({1.0, NAN, 3.0}), at::tensor({1.0, 2.0, 3.0}));

  EXPECT_TRUE(std::isnan(spearman.compute()));
  EXPECT_TRUE(std::isnan(pearson.compute()));
}

struct BadMetric {
  const char* name;
  std::function<void()> call;
  const char* message;
};

class RefusesMetric : public testing::TestWithParam<BadMetric> {};

TEST_P(RefusesMetric, AndReportsTheValues) {
  EXPECT_EQ(message_of<ArgumentError>(GetParam().call), GetParam().message);
}

void binary_f1(const std::vector<std::int64_t>& classes) {
  F1 metric;
  metric.add_batch(at::tensor(classes), at::tensor(classes));
  metric.compute();
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    RefusesMetric,
    testing::Values(
        BadMetric{
            "Shapes",
            [] { Accuracy().add_batch(at::zeros({2, 3}), at::zeros({2})); },
            "`Accuracy`: predictions have shape [2, 3], but references have "
            "shape [2]"},
        BadMetric{
            "Logits",
            [] { F1().add_batch(at::zeros({2}), at::zeros({2})); },
            "`F1`: predictions have type Float, but classes must be integers"},
        BadMetric{
            "RealReferences",
            [] {
              MatthewsCorrelation().add_batch(
                  at::zeros({2}, at::kLong), at::zeros({2}, at::kHalf));
            },
            "`MatthewsCorrelation`: references have type Half, but classes "
            "must be "
            "integers"},
        BadMetric{
            "Undefined",
            [] { Accuracy().add_batch(Tensor(), at::zeros({2})); },
            "`Accuracy`: the predictions tensor is undefined"},
        BadMetric{
            "Complex",
            [] {
              PearsonCorrelation().add_batch(
                  at::zeros({2}, at::kComplexFloat), at::zeros({2}));
            },
            "`PearsonCorrelation` supports only real numbers, but got complex "
            "numbers"},
        BadMetric{
            "ThreeClasses",
            [] { binary_f1({0, 1, 2}); },
            "`F1`: with the average `binary`, there must be at most one class "
            "other than `pos_label` (1), but the classes are 0, 1, 2"},
        BadMetric{
            "OtherClasses",
            [] { binary_f1({0, 2}); },
            "`F1`: with the average `binary`, there must be at most one class "
            "other than `pos_label` (1), but the classes are 0, 2"},
        BadMetric{
            "Average",
            [] { parse_average("macros"); },
            "`average` is `macros`, but must be one of binary, micro, macro, "
            "weighted"},
        BadMetric{
            "PerplexityShapes",
            [] {
              Perplexity().add_batch(
                  at::zeros({2, 3}), at::zeros({3}, at::kLong));
            },
            "`Perplexity`: references of shape [3] do not match logits of "
            "shape [2, 3]"},
        BadMetric{
            "PerplexityClass",
            [] {
              Perplexity().add_batch(
                  at::zeros({2, 3}), at::tensor({1, 3}, at::kLong));
            },
            "`Perplexity`: reference 3 is not a class index from 0 to 2"},
        BadMetric{
            "PerplexityTypes",
            [] { Perplexity().add_batch(at::zeros({2, 3}), at::zeros({2})); },
            "`Perplexity`: logits have type Float and references have type "
            "Float"},
        BadMetric{
            "PerplexityLoss",
            [] { Perplexity().add_loss(at::zeros({2}), 1); },
            "`Perplexity` got a loss with 2 values for 1 token"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace accelerate
