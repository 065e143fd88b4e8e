// SPDX-License-Identifier: Apache-2.0
// Classification metrics. Their state consists of counts, which are summed over
// processes.
#include "accelerate/metrics.h"

#include <cmath>
#include <utility>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "metrics/metric_inputs.h"

namespace accelerate {
namespace {

void count_pairs(Confusion& counts, const metrics::Inputs& inputs) {
  const auto* predicted = inputs.predictions.data_ptr<std::int64_t>();
  const auto* actual = inputs.references.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < inputs.references.numel(); ++i) {
    ++counts[{actual[i], predicted[i]}];
  }
}

Json to_json(const Confusion& counts) {
  Json::Array list;
  for (const auto& [classes, count] : counts) {
    list.push_back(Json::array({classes.first, classes.second, count}));
  }
  return list;
}

/// The counts of all processes. Collective.
Confusion summed(const Group& group, const Confusion& counts) {
  Confusion sum;
  for (const Json& state : metrics::gather_states(group, to_json(counts))) {
    for (const Json& entry : state.as_array()) {
      sum[{entry.at(std::size_t{0}).as_integer(), entry.at(1).as_integer()}] +=
          entry.at(2).as_integer();
    }
  }
  return sum;
}

/// Counts of decisions about one class.
struct ClassCounts {
  std::int64_t right = 0;
  std::int64_t predicted = 0;
  std::int64_t actual = 0;

  void operator+=(const ClassCounts& other) {
    right += other.right;
    predicted += other.predicted;
    actual += other.actual;
  }
};

std::map<std::int64_t, ClassCounts> by_class(const Confusion& counts) {
  std::map<std::int64_t, ClassCounts> classes;
  for (const auto& [pair, count] : counts) {
    const auto& [actual, predicted] = pair;
    classes[actual].actual += count;
    classes[predicted].predicted += count;
    classes[actual].right += actual == predicted ? count : 0;
  }
  return classes;
}

double ratio(std::int64_t part, std::int64_t total, double if_zero) {
  return total == 0 ? if_zero
                    : static_cast<double>(part) / static_cast<double>(total);
}

F1Scores scores_of(const ClassCounts& counts, double zero_division) {
  return {
      .precision = ratio(counts.right, counts.predicted, zero_division),
      .recall = ratio(counts.right, counts.actual, zero_division),
      .f1 = ratio(
          2 * counts.right, counts.predicted + counts.actual, zero_division)};
}

ClassCounts positive_class(
    const std::map<std::int64_t, ClassCounts>& classes,
    const F1Options& options) {
  const auto found = classes.find(options.pos_label);
  if (classes.size() > 2 || (classes.size() == 2 && found == classes.end())) {
    std::vector<std::string> names;
    for (const auto& [name, counts] : classes) {
      names.push_back(str_cat(name));
    }
    throw ArgumentError(
        str_cat(
            "`F1`: with the average `binary`, there must be at most one class "
            "other than `pos_label` (",
            options.pos_label,
            "), but the classes are ",
            join(names, ", ")),
        classes.size() > 2 ? "use the average `micro`, `macro` or `weighted`"
                           : "set `pos_label` to one of these classes");
  }
  return found == classes.end() ? ClassCounts() : found->second;
}

F1Scores mean_scores(
    const std::map<std::int64_t, ClassCounts>& classes,
    const F1Options& options) {
  F1Scores sum;
  double weights = 0;
  for (const auto& [name, counts] : classes) {
    const double weight = options.average == Average::weighted
                              ? static_cast<double>(counts.actual)
                              : 1.0;
    const F1Scores scores = scores_of(counts, options.zero_division);
    sum.precision += weight * scores.precision;
    sum.recall += weight * scores.recall;
    sum.f1 += weight * scores.f1;
    weights += weight;
  }
  return {sum.precision / weights, sum.recall / weights, sum.f1 / weights};
}

F1Scores averaged(const Confusion& counts, const F1Options& options) {
  metrics::check_min_count("F1", static_cast<std::int64_t>(counts.size()));
  const auto classes = by_class(counts);
  switch (options.average) {
    case Average::binary:
      return scores_of(positive_class(classes, options), options.zero_division);
    case Average::micro: {
      ClassCounts all;
      for (const auto& [name, class_counts] : classes) {
        all += class_counts;
      }
      return scores_of(all, options.zero_division);
    }
    case Average::macro:
    case Average::weighted:
      return mean_scores(classes, options);
  }
  throw InternalError("unknown F1 average");
}

// The multi-class form: the covariance of the one-hot predictions and
// references, divided by the square root of the product of their variances.
double matthews(const Confusion& counts) {
  metrics::check_min_count(
      "MatthewsCorrelation", static_cast<std::int64_t>(counts.size()));
  double right = 0;
  double rows = 0;
  double both = 0;
  double predicted = 0;
  double actual = 0;
  for (const auto& [name, class_counts] : by_class(counts)) {
    const auto p = static_cast<double>(class_counts.predicted);
    const auto a = static_cast<double>(class_counts.actual);
    right += static_cast<double>(class_counts.right);
    rows += a;
    both += p * a;
    predicted += p * p;
    actual += a * a;
  }
  const double variances = (rows * rows - predicted) * (rows * rows - actual);
  return variances == 0 ? 0 : (right * rows - both) / std::sqrt(variances);
}

}  // namespace

Average parse_average(std::string_view name) {
  if (name == "binary") {
    return Average::binary;
  }
  if (name == "micro") {
    return Average::micro;
  }
  if (name == "macro") {
    return Average::macro;
  }
  if (name == "weighted") {
    return Average::weighted;
  }
  throw ArgumentError(
      str_cat(
          "`average` is `",
          name,
          "`, but must be one of binary, micro, macro, weighted"),
      did_you_mean(name, {"binary", "micro", "macro", "weighted"}));
}

void Accuracy::add_batch(const Tensor& predictions, const Tensor& references) {
  const auto inputs =
      metrics::class_inputs("Accuracy", predictions, references);
  correct_ += inputs.predictions.eq(inputs.references).sum().item<int64_t>();
  total_ += inputs.references.numel();
}

double Accuracy::compute() {
  const std::int64_t total = std::exchange(total_, 0);
  const std::int64_t correct = std::exchange(correct_, 0);
  metrics::check_min_count("Accuracy", total);
  return ratio(correct, total, 0);
}

double Accuracy::compute(const Group& group) {
  const auto states = metrics::gather_states(
      group,
      Json::array({std::exchange(correct_, 0), std::exchange(total_, 0)}));
  Accuracy all;
  for (const Json& state : states) {
    all.correct_ += state.at(std::size_t{0}).as_integer();
    all.total_ += state.at(1).as_integer();
  }
  return all.compute();
}

F1::F1(const F1Options& options) : options_(options) {
}

void F1::add_batch(const Tensor& predictions, const Tensor& references) {
  count_pairs(counts_, metrics::class_inputs("F1", predictions, references));
}

F1Scores F1::compute() {
  return averaged(std::exchange(counts_, {}), options_);
}

F1Scores F1::compute(const Group& group) {
  return averaged(summed(group, std::exchange(counts_, {})), options_);
}

void MatthewsCorrelation::add_batch(
    const Tensor& predictions, const Tensor& references) {
  count_pairs(
      counts_,
      metrics::class_inputs("MatthewsCorrelation", predictions, references));
}

double MatthewsCorrelation::compute() {
  return matthews(std::exchange(counts_, {}));
}

double MatthewsCorrelation::compute(const Group& group) {
  return matthews(summed(group, std::exchange(counts_, {})));
}

}  // namespace accelerate
