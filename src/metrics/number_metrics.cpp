// SPDX-License-Identifier: Apache-2.0
// Metrics whose inputs are numbers: correlations and perplexity.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "accelerate/error.h"
#include "accelerate/metrics.h"
#include "base/str_cat.h"
#include "metrics/metric_inputs.h"

namespace accelerate {
namespace {

using Numbers = std::vector<double>;

void append(Numbers& numbers, const at::Tensor& values) {
  const auto* data = values.data_ptr<double>();
  numbers.insert(numbers.end(), data, data + values.numel());
}

/// The numbers of all processes. Collective.
Numbers gathered(const Group& group, Numbers numbers) {
  const auto local = at::from_blob(
      numbers.data(),
      {static_cast<std::int64_t>(numbers.size())},
      at::TensorOptions().dtype(at::kDouble));
  Numbers all;
  append(all, group.gather({local}).front().contiguous());
  return all;
}

/// Subtracts the mean and divides by the norm; constant numbers become NaN.
/// Scales the numbers before it sums their squares, so that the squares neither
/// overflow nor underflow.
void normalize(Numbers& numbers) {
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) /
                      static_cast<double>(numbers.size());
  double largest = 0;
  for (double& number : numbers) {
    number -= mean;
    largest = std::max(largest, std::abs(number));
  }
  double squares = 0;
  for (double& number : numbers) {
    number /= largest;
    squares += number * number;
  }
  const double norm = std::sqrt(squares);
  for (double& number : numbers) {
    number /= norm;
  }
}

bool is_constant(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](double number) {
    return number == numbers.front();
  });
}

double pearson(std::string_view metric, Numbers x, Numbers y) {
  metrics::check_min_count(metric, static_cast<std::int64_t>(x.size()), 2);
  if (is_constant(x) || is_constant(y)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  normalize(x);
  normalize(y);
  const double product = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  // Rounding can exceed 1; a NaN stays NaN.
  return std::isnan(product) ? product : std::clamp(product, -1.0, 1.0);
}

/// Returns the rank of each number. Equal numbers get the mean of their ranks.
Numbers ranks_of(const Numbers& numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return numbers[a] < numbers[b];
  });
  Numbers ranks(numbers.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && numbers[order[end]] == numbers[order[begin]]) {
      ++end;
    }
    const double rank = static_cast<double>(begin + end + 1) / 2;
    for (std::size_t i = begin; i < end; ++i) {
      ranks[order[i]] = rank;
    }
    begin = end;
  }
  return ranks;
}

bool has_nan(const Numbers& numbers) {
  return std::any_of(
      numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
}

double spearman(const Numbers& x, const Numbers& y) {
  constexpr std::string_view kName = "SpearmanCorrelation";
  metrics::check_min_count(kName, static_cast<std::int64_t>(x.size()), 2);
  if (has_nan(x) || has_nan(y)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return pearson(kName, ranks_of(x), ranks_of(y));
}

void check_logits(const Tensor& logits, const Tensor& references) {
  if (!logits.defined() || !references.defined() || logits.dim() < 1 ||
      logits.sizes().slice(0, static_cast<std::size_t>(logits.dim() - 1)) !=
          references.sizes() ||
      logits.size(-1) < 1) {
    throw ArgumentError(
        str_cat(
            "`Perplexity`: ",
            references.defined()
                ? str_cat("references of shape ", references.sizes())
                : "undefined references",
            " do not match ",
            logits.defined() ? str_cat("logits of shape ", logits.sizes())
                             : "undefined logits"),
        "pass logits whose shape is the shape of the references plus a last "
        "dimension for the classes");
  }
  if (!logits.is_floating_point() ||
      !c10::isIntegralType(references.scalar_type(), /*includeBool=*/false)) {
    throw ArgumentError(
        str_cat(
            "`Perplexity`: logits have type ",
            c10::toString(logits.scalar_type()),
            " and references have type ",
            c10::toString(references.scalar_type())),
        "pass floating-point logits and integer references");
  }
}

}  // namespace

void PearsonCorrelation::add_batch(
    const Tensor& predictions, const Tensor& references) {
  const auto inputs =
      metrics::number_inputs("PearsonCorrelation", predictions, references);
  append(predictions_, inputs.predictions);
  append(references_, inputs.references);
}

double PearsonCorrelation::compute() {
  return pearson(
      "PearsonCorrelation",
      std::exchange(predictions_, {}),
      std::exchange(references_, {}));
}

double PearsonCorrelation::compute(const Group& group) {
  predictions_ = gathered(group, std::exchange(predictions_, {}));
  references_ = gathered(group, std::exchange(references_, {}));
  return compute();
}

void SpearmanCorrelation::add_batch(
    const Tensor& predictions, const Tensor& references) {
  const auto inputs =
      metrics::number_inputs("SpearmanCorrelation", predictions, references);
  append(predictions_, inputs.predictions);
  append(references_, inputs.references);
}

double SpearmanCorrelation::compute() {
  return spearman(
      std::exchange(predictions_, {}), std::exchange(references_, {}));
}

double SpearmanCorrelation::compute(const Group& group) {
  predictions_ = gathered(group, std::exchange(predictions_, {}));
  references_ = gathered(group, std::exchange(references_, {}));
  return compute();
}

Perplexity::Perplexity(std::int64_t ignore_index)
    : ignore_index_(ignore_index) {
}

void Perplexity::add_batch(const Tensor& logits, const Tensor& references) {
  check_logits(logits, references);
  const auto targets = references.detach().to(at::kLong).reshape({-1});
  const auto counted = targets.ne(ignore_index_);
  const auto kept = targets.masked_select(counted);
  if (kept.numel() == 0) {
    return;
  }
  const std::int64_t classes = logits.size(-1);
  const auto low = kept.min().item<std::int64_t>();
  const auto high = kept.max().item<std::int64_t>();
  if (low < 0 || high >= classes) {
    throw ArgumentError(
        str_cat(
            "`Perplexity`: reference ",
            low < 0 ? low : high,
            " is not a class index from 0 to ",
            classes - 1),
        str_cat(
            "pass class indices, or ", ignore_index_, " to ignore a token"));
  }
  // At least fp32, because sums of bf16 logits are too inexact for a small
  // loss.
  const auto wide =
      logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto losses = logits.detach()
                          .reshape({-1, classes})
                          .to(wide)
                          .log_softmax(-1)
                          .gather(-1, targets.clamp_min(0).unsqueeze(-1))
                          .squeeze(-1)
                          .masked_select(counted);
  sum_ -= losses.to(at::kDouble).sum().item<double>();
  tokens_ += kept.numel();
}

void Perplexity::add_loss(const Tensor& mean_loss, std::int64_t tokens) {
  if (!mean_loss.defined() || mean_loss.numel() != 1 || tokens < 0) {
    throw ArgumentError(
        str_cat(
            "`Perplexity` got a loss with ",
            mean_loss.defined() ? str_cat(mean_loss.numel()) : "no",
            mean_loss.defined() && mean_loss.numel() == 1 ? " value for "
                                                          : " values for ",
            tokens,
            tokens == 1 ? " token" : " tokens"),
        "pass one mean loss and the number of tokens that it covers");
  }
  if (tokens > 0) {
    sum_ += mean_loss.item<double>() * static_cast<double>(tokens);
    tokens_ += tokens;
  }
}

double Perplexity::compute() {
  const double sum = std::exchange(sum_, 0);
  const std::int64_t tokens = std::exchange(tokens_, 0);
  metrics::check_min_count("Perplexity", tokens);
  return std::exp(sum / static_cast<double>(tokens));
}

double Perplexity::compute(const Group& group) {
  const auto states = metrics::gather_states(
      group, Json::array({std::exchange(sum_, 0), std::exchange(tokens_, 0)}));
  Perplexity all(ignore_index_);
  for (const Json& state : states) {
    all.sum_ += state.at(std::size_t{0}).as_double();
    all.tokens_ += state.at(1).as_integer();
  }
  return all.compute();
}

}  // namespace accelerate
