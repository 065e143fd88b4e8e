// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// Elements per block. Each block is reduced in a buffer on the stack, which is
// small enough for the L1 cache and large enough to hide the loop overhead.
constexpr std::int64_t kBlock = 1024;

template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<c10::Half> {
  using type = float;
};
template <>
struct Wide<c10::BFloat16> {
  using type = float;
};

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      // Wraps around like LibTorch, without undefined behavior.
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return static_cast<T>(a + b);
    }
  }
};

struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(
          std::uint64_t{static_cast<U>(a)} * std::uint64_t{static_cast<U>(b)});
    } else {
      return a * b;
    }
  }
};

// Propagates NaN, because comparisons with NaN are false.
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    return (a < b || a != a) ? a : b;
  }
};

struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    return (a > b || a != a) ? a : b;
  }
};

struct Or {
  bool operator()(bool a, bool b) const { return a || b; }
};

struct And {
  bool operator()(bool a, bool b) const { return a && b; }
};

template <typename T, typename Op>
void reduce_block(
    typename Wide<T>::type* sum,
    std::span<const std::byte* const> rows,
    std::int64_t begin,
    std::int64_t count) {
  using W = typename Wide<T>::type;
  const auto row = [&](std::size_t r) {
    return reinterpret_cast<const T*>(rows[r]) + begin;
  };
  const T* first = row(0);
  for (std::int64_t i = 0; i < count; ++i) {
    sum[i] = static_cast<W>(first[i]);
  }
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const T* next = row(r);
    for (std::int64_t i = 0; i < count; ++i) {
      sum[i] = Op{}(sum[i], static_cast<W>(next[i]));
    }
  }
}

template <typename T, typename Op>
void reduce_all(
    bool average,
    std::span<std::byte* const> outs,
    std::span<const std::byte* const> rows,
    std::int64_t count) {
  using W = typename Wide<T>::type;
  alignas(64) std::array<W, kBlock> wide;
  alignas(64) std::array<T, kBlock> narrow;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    reduce_block<T, Op>(wide.data(), rows, begin, n);
    if constexpr (!std::is_same_v<W, bool>) {
      if (average) {
        const W ranks = static_cast<W>(rows.size());
        for (std::int64_t i = 0; i < n; ++i) {
          wide[i] = static_cast<W>(wide[i] / ranks);
        }
      }
    }
    const void* result = wide.data();
    if constexpr (!std::is_same_v<T, W>) {
      for (std::int64_t i = 0; i < n; ++i) {
        narrow[i] = static_cast<T>(wide[i]);
      }
      result = narrow.data();
    }
    for (std::byte* out : outs) {
      std::memcpy(out + begin * sizeof(T), result, n * sizeof(T));
    }
  }
}

template <typename T>
void reduce_numbers(
    ReduceKind kind,
    std::span<std::byte* const> outs,
    std::span<const std::byte* const> rows,
    std::int64_t count) {
  switch (kind) {
    case ReduceKind::sum:
      return reduce_all<T, Add>(false, outs, rows, count);
    case ReduceKind::avg:
      return reduce_all<T, Add>(true, outs, rows, count);
    case ReduceKind::product:
      return reduce_all<T, Multiply>(false, outs, rows, count);
    case ReduceKind::min:
      return reduce_all<T, Minimum>(false, outs, rows, count);
    case ReduceKind::max:
      return reduce_all<T, Maximum>(false, outs, rows, count);
  }
}

void reduce_bools(
    ReduceKind kind,
    std::span<std::byte* const> outs,
    std::span<const std::byte* const> rows,
    std::int64_t count) {
  if (kind == ReduceKind::sum || kind == ReduceKind::max) {
    return reduce_all<bool, Or>(false, outs, rows, count);
  }
  return reduce_all<bool, And>(false, outs, rows, count);
}

}  // namespace

const char* name_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
      return "sum";
    case ReduceKind::avg:
      return "avg";
    case ReduceKind::product:
      return "product";
    case ReduceKind::min:
      return "min";
    case ReduceKind::max:
      return "max";
  }
  return "?";
}

void check_reducible(ReduceKind kind, c10::ScalarType type) {
  constexpr std::array kTypes = {
      c10::ScalarType::Double,
      c10::ScalarType::Float,
      c10::ScalarType::BFloat16,
      c10::ScalarType::Half,
      c10::ScalarType::Long,
      c10::ScalarType::Int,
      c10::ScalarType::Short,
      c10::ScalarType::Char,
      c10::ScalarType::Byte,
      c10::ScalarType::Bool};
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    throw UnsupportedError(
        str_cat("tensors of type ", toString(type), " cannot be reduced"),
        "convert the tensors to double, float, bfloat16, half, long, int, "
        "short, char, byte or bool first");
  }
  if (type == c10::ScalarType::Bool && kind == ReduceKind::avg) {
    throw UnsupportedError(
        "bool tensors cannot be averaged",
        "convert to float first, or reduce with sum, product, min or max");
  }
}

void reduce_rows(
    ReduceKind kind,
    c10::ScalarType type,
    std::span<std::byte* const> outs,
    std::span<const std::byte* const> rows,
    std::int64_t count) {
  switch (type) {
    case c10::ScalarType::Double:
      return reduce_numbers<double>(kind, outs, rows, count);
    case c10::ScalarType::Float:
      return reduce_numbers<float>(kind, outs, rows, count);
    case c10::ScalarType::BFloat16:
      return reduce_numbers<c10::BFloat16>(kind, outs, rows, count);
    case c10::ScalarType::Half:
      return reduce_numbers<c10::Half>(kind, outs, rows, count);
    case c10::ScalarType::Long:
      return reduce_numbers<std::int64_t>(kind, outs, rows, count);
    case c10::ScalarType::Int:
      return reduce_numbers<std::int32_t>(kind, outs, rows, count);
    case c10::ScalarType::Short:
      return reduce_numbers<std::int16_t>(kind, outs, rows, count);
    case c10::ScalarType::Char:
      return reduce_numbers<std::int8_t>(kind, outs, rows, count);
    case c10::ScalarType::Byte:
      return reduce_numbers<std::uint8_t>(kind, outs, rows, count);
    case c10::ScalarType::Bool:
      return reduce_bools(kind, outs, rows, count);
    default:
      check_reducible(kind, type);  // Throws.
  }
}

}  // namespace accelerate
