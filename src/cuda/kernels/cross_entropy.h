// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on rows of logits, which become their own gradients.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// A label of this value does not count.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// A label that is neither a class nor ignored, where the host can read it
/// without waiting: `label` is written before `classes`, which is 0 until then.
struct WrongLabel {
  std::int64_t classes = 0;
  std::int64_t label = 0;
};

/// How many labels count (are in [0, classes)), as a float, and one over it: 0
/// for none, or where one is wrong, which is then written to `wrong`. `out`:
/// two floats.
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
  std::int64_t stride = 0;  ///< Elements from one row of logits to the next.
  /// Columns from `classes` up to here are padding, which gets zeros.
  std::int64_t columns = 0;
  /// In: logits. Out: (softmax - one_hot) * scale, zeros for labels that are
  /// no class.
  void* logits = nullptr;
  const std::int64_t* labels = nullptr;
  const float* scale = nullptr;  ///< One float on the device.
  /// [rows]: the loss of each row * scale; nan where that is 0.
  float* losses = nullptr;
};

void cross_entropy(const CrossEntropy& work, cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
