// SPDX-License-Identifier: Apache-2.0
// Cross-entropy for rows of logits. The logits are overwritten by their
// gradients.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// The loss ignores labels with this value.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// Reports a label that is neither a class nor `kIgnoredLabel`. The struct is
/// placed in memory that the CPU can read without waiting for the device.
/// `classes` is 0 until there is such a label and is then set to the number of
/// classes. `label` is written before `classes`, so it is valid once `classes`
/// is not 0.
struct WrongLabel {
  std::int64_t classes = 0;
  std::int64_t label = 0;
};

/// Counts the labels in [0, classes). Writes two floats to `out`: the count and
/// its inverse. The inverse is 0 if the count is 0 or if a label is neither a
/// class nor `kIgnoredLabel`. Such a label is written to `wrong`.
void count_labels(
    const std::int64_t* labels,
    std::int64_t count,
    std::int64_t classes,
    float* out,
    WrongLabel* wrong,
    cudaStream_t stream);

struct CrossEntropy {
  Type type = Type::bf16;
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  std::int64_t stride = 0;  ///< Elements from one row to the next.
  /// The columns from `classes` up to, but not including, `columns` are
  /// padding. They are set to zero.
  std::int64_t columns = 0;
  /// On input, the logits. On output, their gradients: (softmax - one_hot) *
  /// scale, or zeros in each row whose label is not a class.
  void* logits = nullptr;
  const std::int64_t* labels = nullptr;
  const float* scale = nullptr;  ///< One float on the device.
  /// [rows]: the loss of each row times `scale`; 0 for a row whose label is not
  /// a class. If `scale` is 0, all losses are NaN.
  float* losses = nullptr;
};

void cross_entropy(const CrossEntropy& work, cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
