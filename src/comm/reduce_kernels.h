// SPDX-License-Identifier: Apache-2.0
// Element-wise reductions over the buffers of several ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <c10/core/ScalarType.h>

namespace accelerate {

/// How the values of the ranks become one.
enum class ReduceKind : std::uint8_t { sum, avg, product, min, max };

const char* name_of(ReduceKind kind);

/// Throws `UnsupportedError` unless `reduce_rows` can reduce `type` by `kind`.
void check_reducible(ReduceKind kind, c10::ScalarType type);

/// Sets each of `outs[k][i]` to `rows[0][i] ∘ rows[1][i] ∘ …`, from left to
/// right, for `count` elements of `type`.
///
/// The order of the rows is the order of the additions, so equal rows give
/// equal bits wherever and whenever this runs. 16-bit floats are added in
/// fp32 and rounded once. On `bool`, sum and max mean "or", product and min
/// "and". NaN wins over every number. An output may be one of the rows.
void reduce_rows(
    ReduceKind kind,
    c10::ScalarType type,
    std::span<std::byte* const> outs,
    std::span<const std::byte* const> rows,
    std::int64_t count);

}  // namespace accelerate
