// SPDX-License-Identifier: Apache-2.0
// From tensors to plain memory and back.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "comm/backends/mpi/collectives.h"
#include "comm/backends/mpi/requests.h"

namespace accelerate::mpi {

/// Throws `ArgumentError` unless `tensor` is dense and lies on the CPU.
void check_tensor(const char* operation, const at::Tensor& tensor);
void check_tensors(
    const char* operation, const std::vector<at::Tensor>& tensors);
/// Throws `ArgumentError` unless there is exactly one, and it is good.
const at::Tensor& only_tensor(
    const char* operation, const std::vector<at::Tensor>& tensors);
/// Throws `ArgumentError` unless all have the type of the first.
void check_same_type(
    const char* operation, const std::vector<at::Tensor>& tensors);
/// Throws `ArgumentError` unless both numbers are equal.
void check_count(
    const char* operation,
    const char* what,
    std::int64_t got,
    std::int64_t wanted);
/// Throws `ArgumentError` unless `rank` is one of the group.
void check_rank(const char* operation, std::int64_t rank, int size);

/// Throws `ArgumentError` unless both name an existing root: each rank has one
/// tensor.
void check_root(
    const char* operation, std::int64_t rank, std::int64_t tensor, int size);

/// Throws `UnsupportedError` for what cannot be reduced.
Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor);

/// The contiguous stand-ins of the tensors of one operation. Those that are
/// contiguous stand for themselves.
///
/// Shared with MPI's requests, which keep them alive.
class Tensors {
 public:
  /// Memory to read from.
  ConstBytes input(const at::Tensor& tensor);
  /// Memory to write to; `store` copies it to `tensor` where that is needed.
  Bytes output(const at::Tensor& tensor);
  /// Both.
  Bytes in_out(const at::Tensor& tensor);

  /// Brings the outputs to where the caller looks for them.
  void store();

 private:
  Bytes keep(const at::Tensor& flat, const at::Tensor& destination);

  struct Pair {
    at::Tensor flat;
    at::Tensor destination;  // Undefined where nothing is to be copied.
  };
  std::vector<Pair> pairs_;
};

Bytes bytes_of(const at::Tensor& contiguous);

}  // namespace accelerate::mpi
