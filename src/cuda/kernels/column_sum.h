// SPDX-License-Identifier: Apache-2.0
// Sums over rows, in an order that depends on the sizes alone.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

/// Where the sums of a slice of the columns go.
struct ColumnSums {
  static constexpr int kMost = 3;
  float* out[kMost] = {};  ///< Each [D]; null: not wanted.
};

/// `partial` is [parts, slices, D]; sums over parts.
void reduce_parts(
    const float* partial,
    std::int64_t parts,
    int slices,
    std::int64_t width,
    const ColumnSums& sums,
    cudaStream_t stream);

/// out[j] = sum over i of x[i, j], x of `width` columns, `stride` apart.
void column_sum(
    Type type,
    const void* x,
    std::int64_t rows,
    std::int64_t width,
    std::int64_t stride,
    float* out,
    float* workspace,
    cudaStream_t stream);

/// The second half of it: `workspace` holds the parts already.
void column_sum_parts(
    std::int64_t rows,
    std::int64_t width,
    const float* workspace,
    float* out,
    cudaStream_t stream);

std::int64_t column_sum_workspace(std::int64_t rows, std::int64_t width);

/// In how many parts column sums of so many rows are made.
std::int64_t column_parts(std::int64_t rows, std::int64_t width);

}  // namespace accelerate::cuda::kernels
