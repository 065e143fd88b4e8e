// SPDX-License-Identifier: Apache-2.0
// Metrics over many batches and all processes.
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
// Each process can also add only its own rows, without gathering. In that case,
// pass the process group to `compute`, which combines the rows from all
// processes. The samples that prepared loaders repeat to fill the last batch
// then count twice.
//
// Each call to `compute` ends an evaluation: the next `add_batch` starts a new
// evaluation. `compute` throws `StateError` if no rows were added. Predictions
// and references must have the same shape; otherwise `add_batch` throws
// `ArgumentError`. Thread safety: use a metric from only one thread at a time.
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

/// The fraction of predictions that equal their reference. Predictions and
/// references are integers or booleans.
class ACCELERATE_API Accuracy {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Like `compute()`, for the rows that all processes have added. Collective.
  double compute(const Group& group);

 private:
  std::int64_t correct_ = 0;
  std::int64_t total_ = 0;
};

/// How often each pair of reference and prediction occurred.
using Confusion = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

/// How the scores of classes are combined.
enum class Average {
  binary,    ///< the score of `pos_label`; at most two classes
  micro,     ///< the score over the predictions of all classes together
  macro,     ///< the mean over classes
  weighted,  ///< the mean over classes, weighted by their number of references
};

/// Parses `binary`, `micro`, `macro` or `weighted`. For any other name, throws
/// an `ArgumentError` that lists the choices.
ACCELERATE_API Average parse_average(std::string_view name);

struct F1Options {
  Average average = Average::binary;
  std::int64_t pos_label = 1;
  /// The score where the definition would divide by 0: the precision of a class
  /// that was never predicted, the recall of a class that never occurred, and
  /// the F1 score of a class that was never predicted and never occurred.
  double zero_division = 0;
};

struct F1Scores {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

/// Precision, recall and their harmonic mean, as in scikit-learn.
class ACCELERATE_API F1 {
 public:
  explicit F1(const F1Options& options = {});

  void add_batch(const Tensor& predictions, const Tensor& references);
  /// Returns the scores of all rows that were added. With the average `binary`,
  /// throws `ArgumentError` if there are more than two classes, or two classes
  /// that do not include `pos_label`.
  F1Scores compute();
  /// Like `compute()`, for the rows that all processes have added. Collective.
  F1Scores compute(const Group& group);

 private:
  F1Options options_;
  Confusion counts_;
};

/// The Matthews correlation of predicted and true classes, for two or more
/// classes: 1 if all predictions are right, and 0 if they are no better than
/// chance. Also 0 if all predictions, or all references, are in the same class.
class ACCELERATE_API MatthewsCorrelation {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Like `compute()`, for the rows that all processes have added. Collective.
  double compute(const Group& group);

 private:
  Confusion counts_;
};

/// The linear correlation of predicted and true numbers; NaN if the predictions
/// or the references are constant. `compute` throws `StateError` if there are
/// fewer than two rows.
class ACCELERATE_API PearsonCorrelation {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Like `compute()`, for the rows that all processes have added. Collective.
  double compute(const Group& group);

 private:
  std::vector<double> predictions_;
  std::vector<double> references_;
};

/// The correlation of the ranks of predicted and true numbers; equal numbers
/// share their mean rank. Otherwise like `PearsonCorrelation`.
class ACCELERATE_API SpearmanCorrelation {
 public:
  void add_batch(const Tensor& predictions, const Tensor& references);
  double compute();
  /// Like `compute()`, for the rows that all processes have added. Collective.
  double compute(const Group& group);

 private:
  std::vector<double> predictions_;
  std::vector<double> references_;
};

/// The exponential of the mean cross-entropy per token.
class ACCELERATE_API Perplexity {
 public:
  /// Tokens whose reference is `ignore_index` do not count.
  explicit Perplexity(std::int64_t ignore_index = -100);

  /// Adds logits of shape `[…, classes]` and references of shape `[…]`. For a
  /// causal model, align the two first, because the logits at position i
  /// predict token i + 1.
  void add_batch(const Tensor& logits, const Tensor& references);
  /// Adds a loss that a model has already computed: the mean over `tokens`
  /// tokens.
  void add_loss(const Tensor& mean_loss, std::int64_t tokens);
  double compute();
  /// Like `compute()`, for the rows that all processes have added. Collective.
  double compute(const Group& group);

 private:
  std::int64_t ignore_index_;
  double sum_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace accelerate
