// SPDX-License-Identifier: Apache-2.0
// The expected results of collectives, computed by a plain loop over ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "accelerate/group.h"

namespace accelerate {

/// Returns the input of `rank`. It is the same on every call, so that each rank
/// can compute the inputs of all ranks.
at::Tensor input_of(int rank, at::ScalarType type, std::int64_t count);

/// Reduces the tensors from left to right. Computes in fp32 for 16-bit floats.
at::Tensor plain_reduce(
    const std::vector<at::Tensor>& tensors, c10d::ReduceOp::RedOpType op);

/// Types and operations that the backends support.
const std::vector<at::ScalarType>& promised_types();
const std::vector<c10d::ReduceOp::RedOpType>& promised_operations();
/// Returns whether LibTorch's Gloo supports the reduction.
bool gloo_can(at::ScalarType type, c10d::ReduceOp::RedOpType op);

/// Returns whether the backend of `group` supports the reduction.
bool can_reduce(
    const Group& group, at::ScalarType type, c10d::ReduceOp::RedOpType op);

/// Returns the results of `input_of` for the ranks from 0 to `size` - 1.
std::vector<at::Tensor> inputs_of_all(
    int size, at::ScalarType type, std::int64_t count);

/// Compares two tensors. Throws a `std::runtime_error` that begins with `title`
/// unless the types, the shapes and all elements are equal.
void expect_equal(
    const at::Tensor& actual,
    const at::Tensor& expected,
    const std::string& title);

std::string name_of_operation(c10d::ReduceOp::RedOpType op);

}  // namespace accelerate
