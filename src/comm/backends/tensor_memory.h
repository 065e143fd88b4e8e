// SPDX-License-Identifier: Apache-2.0
// Access to the memory of tensors, and checks for tensor arguments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "comm/reduce_kernels.h"
#include "comm/transport_collectives.h"

namespace accelerate {

/// The bytes of a tensor in row-major order: the tensor's own memory if it is
/// contiguous, otherwise a copy that `copy_back` writes into the tensor.
class TensorMemory {
 public:
  explicit TensorMemory(const at::Tensor& tensor);
  Bytes bytes() const;
  void copy_back();

 private:
  at::Tensor tensor_;
  at::Tensor contiguous_;
};

/// The bytes of several tensors.
class MemoryList {
 public:
  explicit MemoryList(const std::vector<at::Tensor>& tensors);
  const std::vector<Bytes>& bytes() const { return bytes_; }
  std::vector<ConstBytes> const_bytes() const;
  void copy_back();

 private:
  std::vector<TensorMemory> memories_;
  std::vector<Bytes> bytes_;
};

/// Splits `memory` into `count` parts of equal length.
std::vector<Bytes> equal_parts(Bytes memory, int count);
/// Splits `memory` in proportion to the entries of `rows`.
std::vector<Bytes> parts_by_rows(
    Bytes memory, const std::vector<std::int64_t>& rows);
std::vector<ConstBytes> const_parts(const std::vector<Bytes>& parts);

std::vector<at::Tensor> flatten(
    const std::vector<std::vector<at::Tensor>>& lists);

/// The checks below throw `ArgumentError` or `UnsupportedError`. The message
/// names the operation, the value and the expected value.

void check_tensor(const char* operation, const at::Tensor& tensor);
/// Returns the only tensor in a list from c10d; throws unless the list has
/// exactly one tensor.
at::Tensor only_tensor(
    const char* operation, const std::vector<at::Tensor>& tensors);
void check_count(
    const char* operation,
    const char* noun,
    std::size_t count,
    std::size_t expected);
void check_rank(const char* operation, int rank, int size);
/// Checks that `list` has one tensor for each of `size` ranks, each with the
/// type and number of elements of `single`.
void check_list(
    const char* operation,
    const std::vector<at::Tensor>& list,
    const at::Tensor& single,
    int size);
/// Checks that `large` has the type of `part` and `size` times as many
/// elements.
void check_flat(
    const char* operation,
    const at::Tensor& large,
    const at::Tensor& part,
    int size);
/// Returns the root's list; on the other ranks, an empty list. Throws unless
/// `lists` contains one list on the root and no list on the other ranks.
std::vector<at::Tensor> list_of_root(
    const char* operation,
    const std::vector<std::vector<at::Tensor>>& lists,
    bool is_root);
/// Returns how many rows of `tensor` go to each rank: `splits`, or equal
/// numbers if `splits` is empty.
std::vector<std::int64_t> split_rows(
    const char* operation,
    const at::Tensor& tensor,
    const std::vector<std::int64_t>& splits,
    int size);
ReduceKind reduce_kind(const c10d::ReduceOp& op);

}  // namespace accelerate
