// SPDX-License-Identifier: Apache-2.0
// Shared declarations of the program `mpi_suite`.
#pragma once

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "mpi_support.h"

namespace accelerate {

using c10d::ReduceOp;

/// The process group of all ranks, created before the tests.
extern BackendPtr world;

inline int rank() {
  return world->getRank();
}

inline int size() {
  return world->getSize();
}

const std::vector<at::ScalarType>& all_types();
const std::vector<ReduceOp::RedOpType>& all_ops();
bool is_supported(ReduceOp::RedOpType op, at::ScalarType type);

/// Returns the expected result of a reduction, computed by a plain loop over
/// ranks.
at::Tensor reduced(
    ReduceOp::RedOpType op,
    int ranks,
    const std::function<at::Tensor(int)>& input);

/// Expects the same type and the same bits.
void expect_equal(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace accelerate
