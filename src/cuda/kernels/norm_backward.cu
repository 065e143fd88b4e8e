// SPDX-License-Identifier: Apache-2.0
// With g = dy * weight, a row's gradient is
//     d_sum = rstd (g - mean(g) - xhat mean(g xhat)) + d_extra,
// where RMSNorm omits mean(g). A thread block has several groups of threads.
// Each group has its own barrier and processes row after row, so that the
// column sums stay in registers. The next row is prefetched while the current
// one is processed. At the end the block reduces the sums of its groups.
#include <algorithm>

#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/common.cuh"
#include "cuda/kernels/norm.h"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kSlices = ColumnSums::kMax;  // d_weight, d_shift, d_bias

// A group of `kThreads` threads holds a row, `kVectors` vectors of eight per
// thread; `kGroups` groups form a thread block. Two blocks share an SM if the
// sums of all their threads fit into its registers.
template <int kThreadsOfRow, int kVectorsOfThread, int kGroupsOfBlock>
struct Shape {
  static constexpr int kThreads = kThreadsOfRow;
  static constexpr int kVectors = kVectorsOfThread;
  static constexpr int kGroups = kGroupsOfBlock;
  static constexpr int kBlock = kThreads * kGroups;
  static constexpr int kColumns = kThreads * kVectors * kVector;
  static constexpr int kBlocksPerSm = kBlock <= 384 ? 2 : 1;
  __device__ static int group() {
    return static_cast<int>(threadIdx.x) / kThreads;
  }
  __device__ static int thread() {
    return static_cast<int>(threadIdx.x) % kThreads;
  }
  __device__ static int column(int vector) {
    return (thread() + vector * kThreads) * kVector;
  }
};

// Calls `f` with the shape for a width; returns false if no shape fits. With an
// additional gradient, a thread prefetches more, so fewer threads fit on an SM.
template <bool kHasExtra, typename F>
bool with_shape(std::int64_t width, F f) {
  if (width <= 256) {
    f(Shape<32, 1, 8>());
  } else if (width <= 512) {
    f(Shape<64, 1, kHasExtra ? 4 : 6>());
  } else if (width <= 768) {
    f(Shape<96, 1, kHasExtra ? 3 : 4>());
  } else if (width <= 1024) {
    f(Shape<128, 1, kHasExtra ? 2 : 3>());
  } else if (width <= 2048) {
    f(Shape<256, 1, 1>());
  } else if (width <= 4096) {
    f(Shape<512, 1, 1>());
  } else if (width <= 8192) {
    f(Shape<512, 2, 1>());
  } else {
    return false;
  }
  return true;
}

struct Means {
  float g, gx;
};

// Waits for the threads of one group; barrier 0 belongs to the whole block.
template <typename S>
__device__ __forceinline__ void wait_for_group() {
  asm volatile("bar.sync %0, %1;" ::"r"(S::group() + 1), "n"(S::kThreads)
               : "memory");
}

// Computes two sums over the group at once. `scratch` alternates between rows,
// so one barrier per row is enough.
template <typename S>
__device__ __forceinline__ Means sums_of(Means local, float2* scratch) {
  local.g = warp_sum(local.g);
  local.gx = warp_sum(local.gx);
  if constexpr (S::kThreads > kWarp) {
    if (S::thread() % kWarp == 0) {
      scratch[S::thread() / kWarp] = {local.g, local.gx};
    }
    wait_for_group<S>();
    local = {0.0F, 0.0F};
#pragma unroll
    for (int i = 0; i < S::kThreads / kWarp; ++i) {
      local.g += scratch[i].x;
      local.gx += scratch[i].y;
    }
  }
  return local;
}

// What a call computes in addition to the norm. Registers are scarce, so each
// kind of call has its own kernel.
template <bool kHasDropout, bool kHasExtra>
struct Kind {
  static constexpr bool kDrops = kHasDropout;
  static constexpr bool kAdds = kHasExtra;
};

template <typename T, int kVectors>
struct PackedRow {
  Packed8<T> dy[kVectors];
  Packed8<T> sum[kVectors];
  Packed8<T> extra[kVectors];
  float mean, rstd;

  template <typename S, typename K>
  __device__ __forceinline__ void load(
      const NormBackward& w, std::int64_t row) {
    mean = w.mean != nullptr ? w.mean[row] : 0.0F;
    rstd = w.rstd[row];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (S::column(v) < w.width) {
        const std::int64_t at = row * w.width + S::column(v);
        dy[v] = load_packed(static_cast<const T*>(w.dy) + at);
        sum[v] = load_packed(static_cast<const T*>(w.sum) + at);
        if constexpr (K::kAdds) {
          extra[v] = load_packed(static_cast<const T*>(w.d_extra) + at);
        }
      }
    }
  }
  __device__ __forceinline__ Floats8 xhat(int v) const {
    Floats8 x = unpack(sum[v]);
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      x.at[k] = (x.at[k] - mean) * rstd;
    }
    return x;
  }
};

// Reduces the column sums of the groups into this block's partial sums.
template <typename S>
__device__ __forceinline__ void write_part(
    const Floats8 (&sums)[kSlices][S::kVectors], const NormBackward& w) {
  __shared__ float folded[S::kGroups][S::kColumns];
  float* const part =
      w.workspace + static_cast<std::int64_t>(blockIdx.x) * kSlices * w.width;
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    __syncthreads();
#pragma unroll
    for (int v = 0; v < S::kVectors; ++v) {
      store8(&folded[S::group()][S::column(v)], sums[slice][v]);
    }
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.x); j < w.width; j += S::kBlock) {
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < S::kGroups; ++i) {
        sum += folded[i][j];
      }
      part[slice * w.width + j] = sum;
    }
  }
}

template <typename T, typename S, typename K>
__global__ void __launch_bounds__(
    S::kBlock, sizeof(T) == 2 ? S::kBlocksPerSm : 1)
    norm_backward_kernel(const __grid_constant__ NormBackward w) {
  __shared__ float2 scratch[S::kGroups][2][S::kThreads / kWarp];
  const Mask mask(w.dropout);
  const float inverse_width = 1.0F / static_cast<float>(w.width);
  Floats8 sums[kSlices][S::kVectors] = {};
  Floats8 weight[S::kVectors];
#pragma unroll
  for (int v = 0; v < S::kVectors; ++v) {
    weight[v] =
        S::column(v) < w.width ? load8(w.weight + S::column(v)) : Floats8{};
  }
  PackedRow<T, S::kVectors> next;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * S::kGroups;
  std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * S::kGroups + S::group();
  if (row < w.rows) {
    next.template load<S, K>(w, row);
  }
  int buffer = 0;
  // All groups run the same number of iterations, because compute-sanitizer's
  // racecheck does not support barriers that some groups pass more often than
  // other groups.
  for (; row - S::group() < w.rows; row += step) {
    const bool in_range = row < w.rows;
    const PackedRow<T, S::kVectors> r = next;
    if (row + step < w.rows) {
      next.template load<S, K>(w, row + step);
    }
    Means means = {0.0F, 0.0F};
#pragma unroll
    for (int v = 0; v < S::kVectors; ++v) {
      if (in_range && S::column(v) < w.width) {
        const Floats8 dy = unpack(r.dy[v]);
        const Floats8 xhat = r.xhat(v);
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
          sums[0][v].at[k] += dy.at[k] * xhat.at[k];
          sums[1][v].at[k] += dy.at[k];
          const float g = dy.at[k] * weight[v].at[k];
          means.g += g;
          means.gx += g * xhat.at[k];
        }
      }
    }
    means = sums_of<S>(means, scratch[S::group()][buffer]);
    buffer ^= 1;
    means.g = w.mean != nullptr ? means.g * inverse_width : 0.0F;
    means.gx *= inverse_width;
#pragma unroll
    for (int v = 0; v < S::kVectors; ++v) {
      if (in_range && S::column(v) < w.width) {
        const std::int64_t at = row * w.width + S::column(v);
        const Floats8 dy = unpack(r.dy[v]);
        Floats8 d = r.xhat(v);
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
          d.at[k] = r.rstd *
                    (dy.at[k] * weight[v].at[k] - means.g - d.at[k] * means.gx);
        }
        if constexpr (K::kAdds) {
          add(d, unpack(r.extra[v]));
        }
        store8(static_cast<T*>(w.d_sum) + at, d);
        if constexpr (K::kDrops) {
          mask.apply(d, static_cast<std::uint64_t>(at) / kVector);
          store8(static_cast<T*>(w.dx) + at, d);
        }
        add(sums[2][v], d);
      }
    }
  }
  write_part<S>(sums, w);
}

constexpr int kAnyBlock = 256;

// For rows of any width; reads each element twice.
template <typename T>
__global__ void __launch_bounds__(kAnyBlock)
    norm_backward_any_kernel(const __grid_constant__ NormBackward w) {
  __shared__ float scratch[kAnyBlock / kWarp];
  const Mask mask(w.dropout);
  const float inverse_width = 1.0F / static_cast<float>(w.width);
  float* const part =
      w.workspace + static_cast<std::int64_t>(blockIdx.x) * kSlices * w.width;
  // Each thread always has the same columns, so no barrier is needed.
  for (int slice = 0; slice < kSlices; ++slice) {
    for (std::int64_t j = threadIdx.x; j < w.width; j += kAnyBlock) {
      part[slice * w.width + j] = 0.0F;
    }
  }
  for (std::int64_t row = blockIdx.x; row < w.rows; row += gridDim.x) {
    const float mean = w.mean != nullptr ? w.mean[row] : 0.0F;
    const float rstd = w.rstd[row];
    const T* const dy = static_cast<const T*>(w.dy) + row * w.width;
    const T* const sum = static_cast<const T*>(w.sum) + row * w.width;
    float mean_g = 0.0F;
    float mean_gx = 0.0F;
    for (std::int64_t j = threadIdx.x; j < w.width; j += kAnyBlock) {
      const float g = to_float(dy[j]) * w.weight[j];
      mean_g += g;
      mean_gx += g * (to_float(sum[j]) - mean) * rstd;
    }
    mean_g = block_sum<kAnyBlock>(mean_g, scratch) * inverse_width;
    mean_gx = block_sum<kAnyBlock>(mean_gx, scratch) * inverse_width;
    mean_g = w.mean != nullptr ? mean_g : 0.0F;
    for (std::int64_t j = threadIdx.x; j < w.width; j += kAnyBlock) {
      const std::int64_t at = row * w.width + j;
      const float xhat = (to_float(sum[j]) - mean) * rstd;
      const float grad = to_float(dy[j]);
      part[j] += grad * xhat;
      part[w.width + j] += grad;
      float d = rstd * (grad * w.weight[j] - mean_g - xhat * mean_gx);
      d += w.d_extra != nullptr ? to_float(static_cast<const T*>(w.d_extra)[at])
                                : 0.0F;
      static_cast<T*>(w.d_sum)[at] = from_float<T>(d);
      if (w.dx != nullptr) {
        d *= mask.at(static_cast<std::uint64_t>(at));
        static_cast<T*>(w.dx)[at] = from_float<T>(d);
      }
      part[2 * w.width + j] += d;
    }
  }
}

bool can_use_vectors(const NormBackward& w) {
  return w.width % kVector == 0 && is_aligned(w.dy) && is_aligned(w.sum) &&
         is_aligned(w.d_extra) && is_aligned(w.d_sum) && is_aligned(w.dx) &&
         is_aligned(w.weight) && is_aligned(w.workspace);
}

// Returns the number of thread blocks that can run at once, or fewer if a group
// would otherwise process fewer than two rows. More blocks would only give more
// partial sums.
int blocks_of(std::int64_t rows, std::int64_t width, bool has_extra) {
  int groups = 1;
  int blocks_per_sm = 1;
  const auto read = [&](auto shape) {
    groups = decltype(shape)::kGroups;
    blocks_per_sm = decltype(shape)::kBlocksPerSm;
  };
  has_extra ? with_shape<true>(width, read) : with_shape<false>(width, read);
  return grid_of(ceil_div(rows, 2 * groups), blocks_per_sm);
}

template <typename T, typename K>
bool launch_in_shape(
    const NormBackward& work, int blocks, cudaStream_t stream) {
  return with_shape<K::kAdds>(work.width, [&](auto shape) {
    using S = decltype(shape);
    norm_backward_kernel<T, S, K><<<blocks, S::kBlock, 0, stream>>>(work);
  });
}

template <typename T>
bool launch_vectors(const NormBackward& work, int blocks, cudaStream_t stream) {
  if (!can_use_vectors(work)) {
    return false;
  }
  if (work.dx != nullptr) {
    return work.d_extra != nullptr
               ? launch_in_shape<T, Kind<true, true>>(work, blocks, stream)
               : launch_in_shape<T, Kind<true, false>>(work, blocks, stream);
  }
  return work.d_extra != nullptr
             ? launch_in_shape<T, Kind<false, true>>(work, blocks, stream)
             : launch_in_shape<T, Kind<false, false>>(work, blocks, stream);
}

}  // namespace

std::int64_t norm_workspace(std::int64_t rows, std::int64_t width) {
  const int max_blocks =
      std::max(blocks_of(rows, width, true), blocks_of(rows, width, false));
  return static_cast<std::int64_t>(max_blocks) * kSlices * width;
}

void norm_backward(const NormBackward& work, cudaStream_t stream) {
  if (work.rows == 0 || work.width == 0) {
    return;
  }
  const int blocks = blocks_of(work.rows, work.width, work.d_extra != nullptr);
  with_type(work.type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if (!launch_vectors<T>(work, blocks, stream)) {
      norm_backward_any_kernel<T><<<blocks, kAnyBlock, 0, stream>>>(work);
    }
  });
}

void norm_backward_sums(const NormBackward& work, cudaStream_t stream) {
  reduce_partial_sums(
      work.workspace,
      work.rows == 0
          ? 0
          : blocks_of(work.rows, work.width, work.d_extra != nullptr),
      kSlices,
      work.width,
      {{work.d_weight, work.d_shift, work.d_bias}},
      stream);
}

}  // namespace accelerate::cuda::kernels
