// SPDX-License-Identifier: Apache-2.0
// How good predictions are, over many batches and all processes.
//
//     accelerate::Accuracy accuracy;
//     for (auto& batch : eval_dataloader) {
//       auto predictions = model(batch).logits.argmax(-1);
//       accuracy.add_batch(
//           accelerator.gather_for_metrics(predictions),
//           accelerator.gather_for_metrics(batch["labels"]));
//     }
//     accelerator.print(accuracy.compute());
//
// Rows can also stay on the process that computed them: then `compute` is
// given the group, and joins what each process has added. What `prepare`d
// loaders repeat to fill the last batch would count twice then.
//
// Each `compute` ends an evaluation: the next `add_batch` begins another. It
// throws `StateError` when nothing was added, on any process. Predictions and
// references have the same shape, whatever it is; each `add_batch` throws
// `ArgumentError` otherwise. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/group.h"

namespace accelerate {

/// The share of predictions that equal their reference. Both are integers or
/// truth values.
class ACCELERATE_API Accuracy {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Collective.
  double compute(const Group& group);

 private:
  std::int64_t correct_ = 0;
  std::int64_t total_ = 0;
};

/// How often each reference met each prediction.
using Confusion = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

/// How scores of classes become one score.
enum class Average {
  binary,    ///< that of `pos_label`; there may be two classes
  micro,     ///< of all decisions, whatever the class
  macro,     ///< the mean over classes
  weighted,  ///< the mean over rows: a class counts by its references
};

/// Parses `binary`, `micro`, `macro` or `weighted`; throws `ArgumentError`
/// that names the choices otherwise.
ACCELERATE_API Average parse_average(std::string_view name);

struct F1Options {
  Average average = Average::binary;
  std::int64_t pos_label = 1;
  /// The score of what was never predicted, or never there.
  double zero_division = 0;
};

struct F1Scores {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

/// Precision, recall and their harmonic mean, as scikit-learn has them.
class ACCELERATE_API F1 {
 public:
  explicit F1(const F1Options& options = {});

  void add_batch(const Tensor& predictions, const Tensor& references);
  /// Throws `ArgumentError` when there are more than two classes, or others
  /// than `pos_label` and one more, and the average is `binary`.
  F1Scores compute();
  /// Collective.
  F1Scores compute(const Group& group);

 private:
  F1Options options_;
  Confusion counts_;
};

/// The correlation of predicted and true classes, of two classes or more: 1 if
/// all are right, 0 if they are as by chance, and where only one class is
/// predicted or there.
class ACCELERATE_API MatthewsCorrelation {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Collective.
  double compute(const Group& group);

 private:
  Confusion counts_;
};

/// The linear correlation of numbers; NaN where one side is constant.
/// `compute` wants two rows.
class ACCELERATE_API PearsonCorrelation {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Collective.
  double compute(const Group& group);

 private:
  std::vector<double> predictions_;
  std::vector<double> references_;
};

/// The correlation of ranks; equal values share their mean rank. As
/// `PearsonCorrelation` otherwise.
class ACCELERATE_API SpearmanCorrelation {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Collective.
  double compute(const Group& group);

 private:
  std::vector<double> predictions_;
  std::vector<double> references_;
};

/// The exponential of the mean cross entropy of tokens.
class ACCELERATE_API Perplexity {
 public:
  /// Tokens with this reference do not count.
  explicit Perplexity(std::int64_t ignore_index = -100);

  /// Logits of shape `[…, classes]` and references of shape `[…]`. For a
  /// causal model, shift them first: position i predicts token i + 1.
  void add_batch(const Tensor& logits, const Tensor& references);
  /// A mean loss over so many tokens, where a model computed it already.
  void add_loss(const Tensor& mean_loss, std::int64_t tokens);
  double compute();
  /// Collective.
  double compute(const Group& group);

 private:
  std::int64_t ignore_index_;
  double sum_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace accelerate
