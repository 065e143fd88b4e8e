// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/tensors.h"

#include <ATen/ops/empty.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {
namespace {

ReduceKind kind_of(const c10d::ReduceOp& op, c10::ScalarType type) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceKind::sum;
    case c10d::ReduceOp::AVG:
      return ReduceKind::avg;
    case c10d::ReduceOp::PRODUCT:
      return ReduceKind::product;
    case c10d::ReduceOp::MIN:
      return ReduceKind::min;
    case c10d::ReduceOp::MAX:
      return ReduceKind::max;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
    case c10d::ReduceOp::PREMUL_SUM:
    case c10d::ReduceOp::UNUSED:
      break;
  }
  constexpr const char* kNames[] = {"bitwise and", "bitwise or", "bitwise xor"};
  const int index = static_cast<int>(op.op_) - c10d::ReduceOp::BAND;
  throw UnsupportedError(
      str_cat(
          "the `mpi` backend cannot reduce ",
          toString(type),
          " tensors by ",
          index < 3 ? kNames[index] : "a scaled sum"),
      "reduce by sum, avg, product, min or max");
}

}  // namespace

void check_tensor(const char* operation, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    throw ArgumentError(
        str_cat(operation, ": the tensor is undefined"), "pass a CPU tensor");
  }
  if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided) {
    throw ArgumentError(
        str_cat(
            operation,
            ": the `mpi` backend takes dense CPU tensors, got ",
            tensor.layout() == c10::kStrided ? "a dense" : "a sparse",
            " one on ",
            tensor.device()),
        "copy it to the CPU first, or choose another backend");
  }
}

void check_tensors(
    const char* operation, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    check_tensor(operation, tensor);
  }
}

const at::Tensor& only_tensor(
    const char* operation, const std::vector<at::Tensor>& tensors) {
  check_count(
      operation, "tensors", static_cast<std::int64_t>(tensors.size()), 1);
  check_tensor(operation, tensors[0]);
  return tensors[0];
}

void check_same_type(
    const char* operation, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.scalar_type() != tensors[0].scalar_type()) {
      throw ArgumentError(
          str_cat(
              operation,
              ": tensors of type ",
              toString(tensors[0].scalar_type()),
              " and ",
              toString(tensor.scalar_type()),
              " in one call"),
          "convert them to one type first");
    }
  }
}

void check_count(
    const char* operation,
    const char* what,
    std::int64_t got,
    std::int64_t wanted) {
  if (got != wanted) {
    throw ArgumentError(
        str_cat(operation, ": got ", got, " ", what, ", needs ", wanted),
        str_cat("pass ", wanted, " ", what));
  }
}

void check_rank(const char* operation, std::int64_t rank, int size) {
  if (rank < 0 || rank >= size) {
    throw ArgumentError(
        str_cat(
            operation, ": there is no rank ", rank, " in a group of ", size),
        str_cat("pass a rank from 0 to ", size - 1));
  }
}

void check_root(
    const char* operation, std::int64_t rank, std::int64_t tensor, int size) {
  check_rank(operation, rank, size);
  if (tensor != 0) {
    throw ArgumentError(
        str_cat(operation, ": there is no root tensor ", tensor),
        "pass 0, each rank has one tensor");
  }
}

Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const Reduction reduction{
      kind_of(op, tensor.scalar_type()),
      tensor.scalar_type(),
      static_cast<std::size_t>(tensor.element_size())};
  check_reducible(reduction.kind, reduction.type);
  return reduction;
}

Bytes bytes_of(const at::Tensor& contiguous) {
  return {
      static_cast<std::byte*>(contiguous.mutable_data_ptr()),
      contiguous.nbytes()};
}

Bytes Tensors::keep(const at::Tensor& flat, const at::Tensor& destination) {
  pairs_.push_back({flat, destination});
  return bytes_of(flat);
}

ConstBytes Tensors::input(const at::Tensor& tensor) {
  return keep(tensor.contiguous(), {});
}

Bytes Tensors::output(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) {
    return keep(tensor, {});
  }
  return keep(at::empty(tensor.sizes(), tensor.options()), tensor);
}

Bytes Tensors::in_out(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) {
    return keep(tensor, {});
  }
  return keep(tensor.contiguous(), tensor);
}

void Tensors::store() {
  for (const Pair& pair : pairs_) {
    if (pair.destination.defined()) {
      pair.destination.copy_(pair.flat);
    }
  }
}

}  // namespace accelerate::mpi
