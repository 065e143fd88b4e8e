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

/// The memory of the tensors of one operation, in row-major order: a tensor's
/// own memory if it is contiguous, otherwise a copy.
class TensorMemory {
 public:
  /// Returns memory to read the tensor from.
  ConstBytes input(const at::Tensor& tensor);
  /// Returns memory to read the tensor from and to write it to. If the memory
  /// is a copy, `copy_back` writes it into the tensor.
  Bytes output(const at::Tensor& tensor);
  void copy_back();

 private:
  struct Copy {
    at::Tensor memory;
    at::Tensor tensor;  // Undefined for an input.
  };
  std::vector<Copy> copies_;
};

/// Splits `memory` into `count` parts of equal length.
std::vector<Bytes> equal_parts(Bytes memory, int count);
std::vector<ConstBytes> equal_parts(ConstBytes memory, int count);

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
ReduceKind reduce_kind(const c10d::ReduceOp& op);

}  // namespace accelerate
