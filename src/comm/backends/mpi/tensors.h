// SPDX-License-Identifier: Apache-2.0
// Conversion between tensors and plain memory.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "comm/backends/mpi/mpi_collectives.h"
#include "comm/backends/mpi/requests.h"

namespace accelerate::mpi {

/// Throws `ArgumentError` unless `tensor` is a dense CPU tensor.
void check_tensor(const char* operation, const at::Tensor& tensor);
void check_tensors(
    const char* operation, const std::vector<at::Tensor>& tensors);
/// Returns the only tensor in the list. Throws `ArgumentError` unless the list
/// holds exactly one valid tensor.
const at::Tensor& only_tensor(
    const char* operation, const std::vector<at::Tensor>& tensors);
/// Throws `ArgumentError` unless all tensors have the same type.
void check_same_type(
    const char* operation, const std::vector<at::Tensor>& tensors);
/// Throws `ArgumentError` unless `count` equals `expected`. In the error
/// message, `noun` names the counted things.
void check_count(
    const char* operation,
    const char* noun,
    std::int64_t count,
    std::int64_t expected);
/// Throws `ArgumentError` unless `rank` is in a group of `size` ranks.
void check_rank(const char* operation, std::int64_t rank, int size);

/// Throws `ArgumentError` unless `rank` is in the group and the tensor index
/// `tensor` is 0: each rank has only one tensor.
void check_root(
    const char* operation, std::int64_t rank, std::int64_t tensor, int size);

/// Returns the reduction `op` for the type of `tensor`. Throws
/// `UnsupportedError` if the type or the operation is not supported.
Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor);

/// Contiguous copies of the tensors in one operation. Tensors that are already
/// contiguous are used without a copy.
///
/// MPI's requests share this object and keep the memory alive.
class Tensors {
 public:
  /// Memory to read from.
  ConstBytes input(const at::Tensor& tensor);
  /// Memory to write to; `store` copies the result to `tensor` if needed.
  Bytes output(const at::Tensor& tensor);
  /// Memory to read from and write to; `store` copies the result to `tensor` if
  /// needed.
  Bytes in_out(const at::Tensor& tensor);

  /// Copies the outputs into the caller's tensors.
  void store();

 private:
  Bytes keep(const at::Tensor& flat, const at::Tensor& destination);

  struct Pair {
    at::Tensor flat;
    at::Tensor destination;  // Undefined if nothing must be copied.
  };
  std::vector<Pair> pairs_;
};

Bytes bytes_of(const at::Tensor& contiguous);

}  // namespace accelerate::mpi
