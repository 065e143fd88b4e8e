// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/activation.h"
#include "cuda/kernels/strips.cuh"

namespace accelerate::cuda::kernels {
namespace {

struct GeluErf {
  // Computes the normal CDF and PDF from one exponential: Abramowitz and Stegun
  // 7.1.26, error at most 1.5e-7. `erff` alone would take longer than the
  // memory accesses.
  struct Normal {
    float cdf, pdf;
  };
  __device__ static Normal normal(float x) {
    const float e = __expf(-0.5F * x * x);
    const float t =
        __fdividef(1.0F, 1.0F + 0.3275911F * 0.70710678F * fabsf(x));
    const float poly =
        t * (0.254829592F +
             t * (-0.284496736F +
                  t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
    const float tail = 0.5F * poly * e;
    return {x < 0.0F ? tail : 1.0F - tail, 0.39894228F * e};
  }
  __device__ static float value(float x) { return x * normal(x).cdf; }
  __device__ static float derivative(float x) {
    const Normal n = normal(x);
    return n.cdf + x * n.pdf;
  }
};

struct GeluTanh {
  static constexpr float kScale = 0.79788456F;  // sqrt(2 / pi)
  static constexpr float kCubic = 0.044715F;
  // (1 + tanh(u)) / 2 is the logistic function of 2 u.
  __device__ static float tanh_cdf(float x) {
    const float u = kScale * x * (1.0F + kCubic * x * x);
    return __fdividef(1.0F, 1.0F + __expf(-2.0F * u));
  }
  __device__ static float value(float x) { return x * tanh_cdf(x); }
  __device__ static float derivative(float x) {
    const float h = tanh_cdf(x);
    return h +
           2.0F * x * h * (1.0F - h) * kScale * (1.0F + 3.0F * kCubic * x * x);
  }
};

constexpr int kThreads = 256;

template <typename T, typename A>
__global__ void __launch_bounds__(kThreads) bias_activation_kernel(
    const T* x,
    const float* bias,
    T* y,
    std::int64_t vectors,
    std::int64_t row_vectors) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < vectors;
       i += step) {
    Floats8 v = load8(x + i * kVector);
    if (bias != nullptr) {
      add(v, load8(bias + index_in_row(i, row_vectors) * kVector));
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      v.at[k] = A::value(v.at[k]);
    }
    store8(y + i * kVector, v);
  }
}

template <typename T, typename A>
__global__ void __launch_bounds__(kThreads) bias_activation_any_kernel(
    const T* x,
    const float* bias,
    T* y,
    std::int64_t size,
    std::int64_t width) {
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < size;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const float b = bias != nullptr ? bias[i % width] : 0.0F;
    y[i] = from_float<T>(A::value(to_float(x[i]) + b));
  }
}

// Like column_sum_kernel, with the derivative applied to each element.
template <typename T, typename A, bool kIsAligned>
__global__ void __launch_bounds__(kStripBlock, kStripBlocksPerSm)
    bias_activation_backward_kernel(
        const T* x,
        const float* bias,
        const T* dy,
        T* dx,
        std::int64_t rows,
        std::int64_t width,
        float* partial) {
  const Strip strip;
  const std::int64_t column = strip.column;
  Floats8 sum = {};
  std::int64_t i = strip.row;
  if (kIsAligned && column + kVector <= width) {
    const Floats8 b = bias != nullptr ? load8(bias + column) : Floats8{};
    const std::int64_t step = strip.step * width;
    std::int64_t at = i * width + column;
    // The next row is prefetched while this row is processed.
    Packed8<T> next_x = {};
    Packed8<T> next_dy = {};
    if (i < rows) {
      next_x = load_packed(x + at);
      next_dy = load_packed(dy + at);
    }
    for (; i < rows; i += strip.step, at += step) {
      Floats8 v = unpack(next_x);
      Floats8 d = unpack(next_dy);
      if (i + strip.step < rows) {
        next_x = load_packed(x + at + step);
        next_dy = load_packed(dy + at + step);
      }
      add(v, b);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        d.at[k] *= A::derivative(v.at[k]);
      }
      add(sum, d);
      store8(dx + at, d);
    }
  }
  for (; i < rows && column < width; i += strip.step) {
    for (int k = 0; k < kVector && column + k < width; ++k) {
      const std::int64_t at = i * width + column + k;
      const float d =
          to_float(dy[at]) *
          A::derivative(
              to_float(x[at]) + (bias != nullptr ? bias[column + k] : 0.0F));
      dx[at] = from_float<T>(d);
#pragma unroll
      for (int n = 0; n < kVector; ++n) {
        sum.at[n] += n == k ? d : 0.0F;
      }
    }
  }
  write_strip(strip, sum, width, partial);
}

template <typename F>
void with_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::gelu_erf:
      return f(GeluErf());
    case Activation::gelu_tanh:
      return f(GeluTanh());
  }
}

__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0F, 1.0F + __expf(-x));
}

__device__ __forceinline__ float swiglu(float gate, float up) {
  return gate * sigmoid(gate) * up;
}

// Replaces `gate` and `up` by their gradients.
__device__ __forceinline__ void swiglu_derivatives(
    float& gate, float& up, float dy) {
  const float s = sigmoid(gate);
  const float silu = gate * s;
  const float d_gate = dy * up * (s + silu * (1.0F - s));
  up = dy * silu;
  gate = d_gate;
}

template <typename T, bool kIsBackward, int kWidth>
__global__ void __launch_bounds__(kThreads) swiglu_kernel(
    const T* gate_up,
    const T* dy,
    T* out,
    std::int64_t groups,
    std::int64_t row_groups) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < groups;
       i += step) {
    const std::int64_t row = i / row_groups;
    const std::int64_t at = (i + row * row_groups) * kWidth;
    const std::int64_t up_at = at + row_groups * kWidth;
    if constexpr (kWidth == kVector) {
      Floats8 gate = load8(gate_up + at);
      Floats8 up = load8(gate_up + up_at);
      if constexpr (kIsBackward) {
        const Floats8 d = load8(dy + i * kVector);
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
          swiglu_derivatives(gate.at[k], up.at[k], d.at[k]);
        }
        store8(out + at, gate);
        store8(out + up_at, up);
      } else {
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
          gate.at[k] = swiglu(gate.at[k], up.at[k]);
        }
        store8(out + i * kVector, gate);
      }
    } else {
      float gate = to_float(gate_up[at]);
      float up = to_float(gate_up[up_at]);
      if constexpr (kIsBackward) {
        swiglu_derivatives(gate, up, to_float(dy[i]));
        out[at] = from_float<T>(gate);
        out[up_at] = from_float<T>(up);
      } else {
        out[i] = from_float<T>(swiglu(gate, up));
      }
    }
  }
}

template <bool kIsBackward>
void swiglu(
    Type type,
    const void* gate_up,
    const void* dy,
    void* out,
    std::int64_t rows,
    std::int64_t width,
    cudaStream_t stream) {
  if (rows == 0 || width == 0) {
    return;
  }
  const bool is_vector = width % kVector == 0 && is_aligned(gate_up) &&
                         is_aligned(dy) && is_aligned(out);
  const std::int64_t row_groups = is_vector ? width / kVector : width;
  const std::int64_t groups = rows * row_groups;
  const int grid = grid_of(ceil_div(groups, kThreads), 8);
  with_type(type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    const auto* in = static_cast<const T*>(gate_up);
    const auto* d = static_cast<const T*>(dy);
    auto* to = static_cast<T*>(out);
    if (is_vector) {
      swiglu_kernel<T, kIsBackward, kVector>
          <<<grid, kThreads, 0, stream>>>(in, d, to, groups, row_groups);
    } else {
      swiglu_kernel<T, kIsBackward, 1>
          <<<grid, kThreads, 0, stream>>>(in, d, to, groups, row_groups);
    }
  });
}

}  // namespace

void bias_activation_forward(
    const BiasActivation& work, void* y, cudaStream_t stream) {
  const std::int64_t size = work.rows * work.width;
  if (size == 0) {
    return;
  }
  with_type(work.type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    with_activation(work.activation, [&](auto a) {
      using A = decltype(a);
      const auto* x = static_cast<const T*>(work.x);
      auto* to = static_cast<T*>(y);
      if (work.width % kVector == 0 && is_aligned(x) && is_aligned(y) &&
          is_aligned(work.bias)) {
        const std::int64_t vectors = size / kVector;
        bias_activation_kernel<T, A>
            <<<grid_of(ceil_div(vectors, kThreads), 16), kThreads, 0, stream>>>(
                x, work.bias, to, vectors, work.width / kVector);
      } else {
        bias_activation_any_kernel<T, A>
            <<<grid_of(ceil_div(size, kThreads), 8), kThreads, 0, stream>>>(
                x, work.bias, to, size, work.width);
      }
    });
  });
}

void bias_activation_backward(
    const BiasActivation& work,
    const void* dy,
    void* dx,
    float* workspace,
    cudaStream_t stream) {
  if (work.rows > 0 && work.width > 0) {
    const bool aligned = work.width % kVector == 0 && is_aligned(work.x) &&
                         is_aligned(work.bias) && is_aligned(dy) &&
                         is_aligned(dx);
    with_type(work.type, [&](auto* pointer) {
      using T = std::remove_pointer_t<decltype(pointer)>;
      with_activation(work.activation, [&](auto a) {
        using A = decltype(a);
        auto kernel = bias_activation_backward_kernel<T, A, false>;
        if (aligned) {
          kernel = bias_activation_backward_kernel<T, A, true>;
        }
        kernel<<<strip_grid(work.rows, work.width), strip_block(), 0, stream>>>(
            static_cast<const T*>(work.x),
            work.bias,
            static_cast<const T*>(dy),
            static_cast<T*>(dx),
            work.rows,
            work.width,
            workspace);
      });
    });
  }
}

void swiglu_forward(
    Type type,
    const void* gate_up,
    void* y,
    std::int64_t rows,
    std::int64_t width,
    cudaStream_t stream) {
  swiglu<false>(type, gate_up, nullptr, y, rows, width, stream);
}

void swiglu_backward(
    Type type,
    const void* gate_up,
    const void* dy,
    void* d_gate_up,
    std::int64_t rows,
    std::int64_t width,
    cudaStream_t stream) {
  swiglu<true>(type, gate_up, dy, d_gate_up, rows, width, stream);
}

}  // namespace accelerate::cuda::kernels
