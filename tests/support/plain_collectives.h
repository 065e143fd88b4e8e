// SPDX-License-Identifier: Apache-2.0
// What collectives must give, computed by a plain loop over ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "accelerate/group.h"

namespace accelerate {

/// The tensor that `rank` brings to a collective: the same on every call, so
/// that each rank can compute what all others have.
at::Tensor input_of(int rank, at::ScalarType type, std::int64_t count);

/// Reduces the tensors from left to right, 16-bit floats in fp32.
at::Tensor plain_reduce(
    const std::vector<at::Tensor>& tensors, c10d::ReduceOp::RedOpType op);

/// Types and operations that the backends promise.
const std::vector<at::ScalarType>& promised_types();
const std::vector<c10d::ReduceOp::RedOpType>& promised_operations();
/// Whether LibTorch's Gloo has it too, to compare with.
bool gloo_can(at::ScalarType type, c10d::ReduceOp::RedOpType op);

/// Whether the backend of `group` has it.
bool can_reduce(
    const Group& group, at::ScalarType type, c10d::ReduceOp::RedOpType op);

/// `input_of` each rank.
std::vector<at::Tensor> inputs_of_all(
    int size, at::ScalarType type, std::int64_t count);

/// Throws `std::runtime_error` that begins with `what` unless type, shape and
/// every element are the same.
void expect_equal(
    const at::Tensor& got, const at::Tensor& expected, const std::string& what);

std::string name_of_operation(c10d::ReduceOp::RedOpType op);

}  // namespace accelerate
