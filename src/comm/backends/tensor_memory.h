// SPDX-License-Identifier: Apache-2.0
// Tensors as plain memory, and the checks before that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "comm/collectives.h"
#include "comm/reduce_kernels.h"

namespace accelerate {

/// The bytes of a tensor in row-major order: its own memory if that is how
/// they lie, else a copy that `copy_back` writes into the tensor.
class TensorMemory {
 public:
  explicit TensorMemory(const at::Tensor& tensor);
  Bytes bytes() const;
  void copy_back();

 private:
  at::Tensor tensor_;
  at::Tensor contiguous_;
};

/// Several of them.
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

/// `memory` in `count` parts of equal length.
std::vector<Bytes> equal_parts(Bytes memory, int count);
/// `memory` cut in proportion to the entries of `rows`.
std::vector<Bytes> parts_by_rows(
    Bytes memory, const std::vector<std::int64_t>& rows);
std::vector<ConstBytes> const_parts(const std::vector<Bytes>& parts);

std::vector<at::Tensor> flatten(
    const std::vector<std::vector<at::Tensor>>& lists);

/// The checks throw `ArgumentError` or `UnsupportedError` with the name of the
/// operation, the value and what would be right.

void check_tensor(const char* operation, const at::Tensor& tensor);
/// The one tensor that c10d passes in a list.
at::Tensor only_tensor(
    const char* operation, const std::vector<at::Tensor>& tensors);
void check_count(const char* what, std::size_t count, std::size_t expected);
void check_rank(const char* operation, int rank, int size);
/// `list` has a tensor like `one` for each of `size` ranks.
void check_list(
    const char* operation,
    const std::vector<at::Tensor>& list,
    const at::Tensor& one,
    int size);
/// `whole` has as many elements as `size` tensors like `part`.
void check_flat(
    const char* operation,
    const at::Tensor& whole,
    const at::Tensor& part,
    int size);
/// The list that only the root passes; empty on the other ranks.
std::vector<at::Tensor> list_of_root(
    const char* operation,
    const std::vector<std::vector<at::Tensor>>& lists,
    bool is_root);
/// How many rows of `tensor` go to each rank.
std::vector<std::int64_t> split_rows(
    const char* operation,
    const at::Tensor& tensor,
    const std::vector<std::int64_t>& splits,
    int size);
ReduceKind reduce_kind(const c10d::ReduceOp& op);

}  // namespace accelerate
