// SPDX-License-Identifier: Apache-2.0
// Metrics over several processes equal the metrics over all rows.
#include "accelerate/metrics.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

/// Returns a rank's part of the rows: parts are unequal, and rank 1 has none.
Tensor part(const Tensor& rows, int rank, int size) {
  const std::int64_t count = rows.size(0);
  const std::int64_t share = count / (2 * size);
  if (rank == 1) {
    return rows.narrow(0, 0, 0);
  }
  return rank == 0 ? rows.narrow(0, 0, count - (size - 2) * share)
                   : rows.narrow(0, count - (rank - 1) * share, share);
}

class MetricRanks : public testing::TestWithParam<int> {};

TEST_P(MetricRanks, MatchASingleProcess) {
  at::manual_seed(3);
  const auto predictions = at::randint(0, 4, {90}, at::kLong);
  const auto references = at::randint(0, 4, {90}, at::kLong);
  const auto logits = at::randn({90, 4});
  const auto check = [&](auto alone, const Tensor& first, auto&& value) {
    auto all = alone;
    all.add_batch(first, references);
    const double expected = value(all.compute());
    run_on_ranks(GetParam(), quick(Backend::fake), [&](Group& group) {
      auto metric = alone;
      metric.add_batch(
          part(first, group.rank(), group.size()),
          part(references, group.rank(), group.size()));

      EXPECT_NEAR(value(metric.compute(group)), expected, 1e-12);
    });
  };
  const auto identity = [](double value) { return value; };

  check(Accuracy(), predictions, identity);
  check(F1({.average = Average::macro}), predictions, [](const F1Scores& s) {
    return s.precision + 2 * s.recall + 4 * s.f1;
  });
  check(MatthewsCorrelation(), predictions, identity);
  check(PearsonCorrelation(), predictions, identity);
  check(SpearmanCorrelation(), predictions, identity);
  check(Perplexity(), logits, identity);
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, MetricRanks, testing::Values(2, 3, 5), [](const auto& each) {
      return "Ranks_" + std::to_string(each.param);
    });

TEST(Metrics, ThrowOnEveryRankWithoutRows) {
  run_on_ranks(2, quick(Backend::fake), [](Group& group) {
    EXPECT_EQ(
        message_of<StateError>([&] { Accuracy().compute(group); }),
        "`Accuracy` got 0 rows, but needs at least 1");
    group.barrier();
  });
}

}  // namespace
}  // namespace accelerate
