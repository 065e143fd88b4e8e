// SPDX-License-Identifier: Apache-2.0
// How operators become nodes: one table per family of operators.
//
// To add an operator:
// 1. Choose the family's file in this folder (or add one, declare its table
//    below and list it in lowerings.cpp).
// 2. Add a row: the name of the operator's FUNCTIONAL form with its overload
//    (`add.Tensor`, as in PyTorch's native_functions.yaml, without `aten::`),
//    and a function that gets a `Call`. It reads arguments by position,
//    computes with the functions in graph/build.h, and calls `result` once per
//    result. The result's type and shape must be the same as in PyTorch: the
//    device does not correct them. In-place and out= forms (`add_.Tensor`,
//    `add.out`) follow from that row. An operator that has no functional form
//    gets a row under its own name.
// 3. Add a row to tests/unit/xla/operator_cases.cpp: it compares results,
//    gradients, types and shapes with the CPU in strict mode.
//
// Operators that PyTorch composes from others (matmul, layer_norm, linear, …)
// need no row. An operator without a row runs on the CPU and is counted; a
// warning names it once. With ACCELERATE_XLA_STRICT=1, it is an error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "xla/device/call.h"

namespace accelerate::xla {

struct Lowering {
  std::string name;
  std::function<void(Call&)> lower;
};
using Lowerings = std::vector<Lowering>;

Lowerings unary_lowerings();
Lowerings binary_lowerings();
Lowerings activation_lowerings();
Lowerings reduction_lowerings();
Lowerings matmul_lowerings();
Lowerings shape_lowerings();
Lowerings creation_lowerings();
Lowerings indexing_lowerings();
Lowerings normalization_lowerings();
Lowerings loss_lowerings();
Lowerings random_lowerings();
Lowerings convolution_lowerings();
Lowerings pooling_lowerings();
Lowerings optimizer_lowerings();

/// Returns the rows of all tables.
Lowerings all_lowerings();

}  // namespace accelerate::xla
