// SPDX-License-Identifier: Apache-2.0
// Column sums. The order of summation depends only on the sizes.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// The outputs of `reduce_partial_sums`, one output for each slice.
struct ColumnSums {
  static constexpr int kMax = 3;
  float* out[kMax] = {};  ///< Each is [D], or null if it is not needed.
};

/// Sums `partial`, [parts, slices, D], over its first dimension. D is `width`.
void reduce_partial_sums(
    const float* partial,
    std::int64_t parts,
    int slices,
    std::int64_t width,
    const ColumnSums& sums,
    cudaStream_t stream);

/// Computes out[j] as the sum of x[i, j] over all rows i. `stride` is the
/// number of elements from one row of `x` to the next. `workspace` must have
/// `column_sum_workspace(rows, width)` floats.
void column_sum(
    Type type,
    const void* x,
    std::int64_t rows,
    std::int64_t width,
    std::int64_t stride,
    float* out,
    float* workspace,
    cudaStream_t stream);

/// Runs the second half of `column_sum`, for a `workspace` that already holds
/// the partial sums.
void finish_column_sum(
    std::int64_t rows,
    std::int64_t width,
    const float* workspace,
    float* out,
    cudaStream_t stream);

/// Returns the number of floats that the workspace for `column_sum` needs.
std::int64_t column_sum_workspace(std::int64_t rows, std::int64_t width);

/// Returns the number of partial sums that are computed for each column of a
/// matrix with this size.
std::int64_t column_parts(std::int64_t rows, std::int64_t width);

}  // namespace accelerate::cuda::kernels
