// SPDX-License-Identifier: Apache-2.0
// Element-wise reductions over the buffers of several ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <c10/core/ScalarType.h>

namespace accelerate {

/// How a reduction combines the values from all ranks.
enum class ReduceKind : std::uint8_t { sum, avg, product, min, max };

const char* name_of(ReduceKind kind);

/// Throws `UnsupportedError` unless `reduce_rows` supports `kind` for `type`.
void check_reducible(ReduceKind kind, c10::ScalarType type);

/// Sets each of `outs[k][i]` to `rows[0][i] ∘ rows[1][i] ∘ …`, from left to
/// right, for `count` elements of `type`.
///
/// Rows are always combined in this order, so the result is identical on every
/// rank and in every run. 16-bit floats are combined in fp32, and the result is
/// rounded once. For `bool`, sum and max mean "or"; product and min mean "and".
/// NaN propagates. An output may be one of the rows.
void reduce_rows(
    ReduceKind kind,
    c10::ScalarType type,
    std::span<std::byte* const> outs,
    std::span<const std::byte* const> rows,
    std::int64_t count);

}  // namespace accelerate
