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
  constexpr const char* kNames[] = {"bitwise AND", "bitwise OR", "bitwise XOR"};
  const int index = static_cast<int>(op.op_) - c10d::ReduceOp::BAND;
  throw UnsupportedError(
      str_cat(
          "the `mpi` backend cannot reduce ",
          toString(type),
          " tensors with ",
          index < 3 ? kNames[index] : "a scaled sum"),
      "use sum, avg, product, min or max");
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
            ": the `mpi` backend supports only dense CPU tensors, got ",
            tensor.layout() == c10::kStrided ? "a dense" : "a sparse",
            " tensor on ",
            tensor.device()),
        "pass a dense CPU tensor, or choose another backend");
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
              ": all tensors in one call must have the same type, got ",
              toString(tensors[0].scalar_type()),
              " and ",
              toString(tensor.scalar_type())),
          "convert the tensors to one type first");
    }
  }
}

void check_count(
    const char* operation,
    const char* noun,
    std::int64_t count,
    std::int64_t expected) {
  if (count != expected) {
    throw ArgumentError(
        str_cat(
            operation,
            ": the number of ",
            noun,
            " is ",
            count,
            ", but must be ",
            expected),
        str_cat("change the number of ", noun, " to ", expected));
  }
}

void check_rank(const char* operation, std::int64_t rank, int size) {
  if (rank < 0 || rank >= size) {
    throw ArgumentError(
        str_cat(
            operation,
            ": rank ",
            rank,
            " is not in the group of ",
            size,
            " ranks"),
        str_cat("pass a rank from 0 to ", size - 1));
  }
}

void check_root(
    const char* operation, std::int64_t rank, std::int64_t tensor, int size) {
  check_rank(operation, rank, size);
  if (tensor != 0) {
    throw ArgumentError(
        str_cat(
            operation,
            ": the root tensor index is ",
            tensor,
            ", but must be 0"),
        "pass 0 as the root tensor index; each rank has only one tensor");
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
