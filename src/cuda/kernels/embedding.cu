// SPDX-License-Identifier: Apache-2.0
// The tokens are sorted by id, so that tokens with the same id form a run. A
// thread block sums the runs within a chunk of sorted tokens. If a run is
// inside one chunk, its sum is then complete. If a run extends over several
// chunks, a partial sum for each chunk is written to `partial`, and one thread
// block per such run reduces the partial sums.
#include <cub/device/device_radix_sort.cuh>

#include "cuda/kernels/common.cuh"
#include "cuda/kernels/embedding.h"

namespace accelerate::cuda::kernels {
namespace {

constexpr int kThreads = 128;

// A thread block processes its chunk token by token. With few tokens, small
// chunks give more blocks; with many tokens, large chunks give fewer partial
// sums.
constexpr std::int64_t kFewTokens = 8192;
constexpr int chunk_of(std::int64_t count) {
  return count <= kFewTokens ? 16 : 64;
}

struct Layout {
  std::size_t keys, sorted_keys, tokens, sorted_tokens, partial, sort, end;
};

std::size_t sort_bytes(std::int64_t count, int bits) {
  std::size_t bytes = 0;
  cub::DeviceRadixSort::SortPairs(
      nullptr,
      bytes,
      static_cast<const int*>(nullptr),
      static_cast<int*>(nullptr),
      static_cast<const int*>(nullptr),
      static_cast<int*>(nullptr),
      static_cast<int>(count),
      0,
      bits);
  return bytes;
}

// Ids outside the table get the key `rows` and are sorted to the end.
int bits_of(std::int64_t rows) {
  int bits = 1;
  while ((std::int64_t{1} << bits) <= rows) {
    ++bits;
  }
  return bits;
}

Layout layout_of(std::int64_t count, std::int64_t rows, std::int64_t width) {
  const auto padded = [](std::size_t bytes) {
    return (bytes + 255) / 256 * 256;
  };
  const std::size_t list =
      padded(static_cast<std::size_t>(count) * sizeof(int));
  const std::size_t partial = padded(
      static_cast<std::size_t>(ceil_div(count, chunk_of(count)) * 2 * width) *
      sizeof(float));
  Layout at = {};
  at.sorted_keys = list;
  at.tokens = 2 * list;
  at.sorted_tokens = 3 * list;
  at.partial = 4 * list;
  at.sort = at.partial + partial;
  at.end = at.sort + sort_bytes(count, bits_of(rows));
  return at;
}

__global__ void __launch_bounds__(kThreads) keys_kernel(
    const std::int64_t* ids,
    int count,
    std::int64_t rows,
    std::int64_t padding_id,
    int* keys,
    int* tokens) {
  const int i =
      static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i < count) {
    const std::int64_t id = ids[i];
    const bool is_used = id >= 0 && id < rows && id != padding_id;
    keys[i] = static_cast<int>(is_used ? id : rows);
    tokens[i] = i;
  }
}

// Decides where the sum of a run goes; see the top of this file.
struct RunEnds {
  const int* keys;
  int begin, end, count;
  std::int64_t width, column;
  float* d_table;
  float* partial;

  __device__ void finish(int first, int next, int key, float sum) const {
    const bool starts_earlier =
        first == begin && begin > 0 && keys[begin - 1] == key;
    const bool continues = next == end && end < count && keys[end] == key;
    const std::int64_t chunk = blockIdx.x;
    if (starts_earlier) {
      partial[2 * chunk * width + column] = sum;
    } else if (continues) {
      partial[(2 * chunk + 1) * width + column] = sum;
    } else {
      // No other thread adds to this element. The atomic operation is used
      // because it does not wait for the old value.
      atomicAdd(d_table + key * width + column, sum);
    }
  }
};

// blockIdx.x: the chunk; blockIdx.y: kThreads columns.
template <typename T, int kChunk>
__global__ void __launch_bounds__(kThreads) runs_kernel(
    const int* __restrict__ keys,
    const int* __restrict__ tokens,
    const T* __restrict__ dy,
    int count,
    int rows,
    std::int64_t width,
    float* d_table,
    float* partial) {
  __shared__ int chunk_keys[kChunk];
  __shared__ int chunk_tokens[kChunk];
  const int begin = static_cast<int>(blockIdx.x) * kChunk;
  const int end = min(begin + kChunk, count);
  for (int i = static_cast<int>(threadIdx.x); i < kChunk; i += kThreads) {
    const bool in_range = begin + i < end;
    chunk_keys[i] = in_range ? keys[begin + i] : rows;
    chunk_tokens[i] = in_range ? tokens[begin + i] : 0;
  }
  __syncthreads();
  const std::int64_t j =
      static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (j >= width) {
    return;
  }
  const RunEnds ends = {keys, begin, end, count, width, j, d_table, partial};
  int first = begin;
  int key = chunk_keys[0];
  float sum = 0.0F;
  for (int i = 0; i < kChunk && chunk_keys[i] < rows; i += kVector) {
    float values[kVector];  // All are loaded before the first is used.
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      values[k] = to_float(dy[chunk_tokens[i + k] * width + j]);
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      if (chunk_keys[i + k] != key) {
        ends.finish(first, begin + i + k, key, sum);
        first = begin + i + k;
        key = chunk_keys[i + k];
        sum = 0.0F;
      }
      sum += values[k];
      if (key >= rows) {
        return;
      }
    }
  }
  if (key < rows) {
    ends.finish(first, end, key, sum);
  }
}

// blockIdx.x: a chunk. A run that starts in it may extend beyond it.
__global__ void __launch_bounds__(kThreads) crossing_kernel(
    const int* __restrict__ keys,
    int count,
    int rows,
    int size,
    std::int64_t width,
    float* d_table,
    const float* __restrict__ partial) {
  const std::int64_t j =
      static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const int chunk = static_cast<int>(blockIdx.x);
  const int end = (chunk + 1) * size;
  if (j >= width || end >= count) {
    return;
  }
  const int key = keys[end];
  const bool continues = key < rows && keys[end - 1] == key;
  const int begin = chunk * size;
  const bool starts_earlier =
      begin > 0 && keys[begin - 1] == key && keys[begin] == key;
  if (!continues || starts_earlier) {
    return;
  }
  float sum = partial[(2 * static_cast<std::int64_t>(chunk) + 1) * width + j];
  // Find the chunk in which the run ends.
  int last = chunk + 1;
  while ((last + 1) * size < count && keys[(last + 1) * size] == key) {
    ++last;
  }
#pragma unroll 8
  for (int i = chunk + 1; i <= last; ++i) {
    sum += partial[2 * static_cast<std::int64_t>(i) * width + j];
  }
  d_table[key * width + j] += sum;
}

struct Lists {
  int *keys, *sorted_keys, *tokens, *sorted_tokens;
  float* partial;
};

Lists lists_of(const EmbeddingBackward& work, const Layout& at) {
  auto* const base = static_cast<char*>(work.workspace);
  return {
      reinterpret_cast<int*>(base + at.keys),
      reinterpret_cast<int*>(base + at.sorted_keys),
      reinterpret_cast<int*>(base + at.tokens),
      reinterpret_cast<int*>(base + at.sorted_tokens),
      reinterpret_cast<float*>(base + at.partial)};
}

bool is_empty(const EmbeddingBackward& work) {
  return work.count == 0 || work.width == 0 || work.rows == 0;
}

}  // namespace

std::size_t embedding_workspace_bytes(
    std::int64_t count, std::int64_t rows, std::int64_t width) {
  return count == 0 ? 0 : layout_of(count, rows, width).end;
}

cudaError_t embedding_sort(const EmbeddingBackward& work, cudaStream_t stream) {
  if (is_empty(work)) {
    return cudaSuccess;
  }
  const Layout at = layout_of(work.count, work.rows, work.width);
  const Lists lists = lists_of(work, at);
  const int count = static_cast<int>(work.count);
  keys_kernel<<<
      static_cast<unsigned>(ceil_div(count, kThreads)),
      kThreads,
      0,
      stream>>>(
      work.ids, count, work.rows, work.padding_id, lists.keys, lists.tokens);
  std::size_t bytes = at.end - at.sort;
  return cub::DeviceRadixSort::SortPairs(
      static_cast<char*>(work.workspace) + at.sort,
      bytes,
      lists.keys,
      lists.sorted_keys,
      lists.tokens,
      lists.sorted_tokens,
      count,
      0,
      bits_of(work.rows),
      stream);
}

cudaError_t embedding_sums(const EmbeddingBackward& work, cudaStream_t stream) {
  if (is_empty(work)) {
    return cudaSuccess;
  }
  const Lists lists =
      lists_of(work, layout_of(work.count, work.rows, work.width));
  const int count = static_cast<int>(work.count);
  const int rows = static_cast<int>(work.rows);
  const dim3 grid(
      static_cast<unsigned>(ceil_div(count, chunk_of(count))),
      static_cast<unsigned>(ceil_div(work.width, kThreads)));
  with_type(work.type, [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    const auto kernel =
        chunk_of(count) == 16 ? runs_kernel<T, 16> : runs_kernel<T, 64>;
    kernel<<<grid, kThreads, 0, stream>>>(
        lists.sorted_keys,
        lists.sorted_tokens,
        static_cast<const T*>(work.dy),
        count,
        rows,
        work.width,
        work.d_table,
        lists.partial);
  });
  crossing_kernel<<<grid, kThreads, 0, stream>>>(
      lists.sorted_keys,
      count,
      rows,
      chunk_of(count),
      work.width,
      work.d_table,
      lists.partial);
  return cudaGetLastError();
}

cudaError_t embedding_backward(
    const EmbeddingBackward& work, cudaStream_t stream) {
  const cudaError_t sorted = embedding_sort(work, stream);
  return sorted == cudaSuccess ? embedding_sums(work, stream) : sorted;
}

}  // namespace accelerate::cuda::kernels
