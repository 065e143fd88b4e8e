// SPDX-License-Identifier: Apache-2.0
// What the files of the rank program `mpi_suite` share.
#pragma once

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "mpi_support.h"

namespace accelerate {

using c10d::ReduceOp;

/// The group of all ranks, made before the tests.
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

/// The plain loop over ranks that every reduction is compared with.
at::Tensor reduced(
    ReduceOp::RedOpType op,
    int ranks,
    const std::function<at::Tensor(int)>& input);

/// The same type and the same bits.
void expect_equal(const at::Tensor& got, const at::Tensor& wanted);

}  // namespace accelerate
