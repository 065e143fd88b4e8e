// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/tensor_memory.h"

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {

namespace {

template <typename Span>
std::vector<Span> split(Span memory, int count) {
  std::vector<Span> parts;
  const std::size_t bytes = memory.size() / static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    parts.push_back(memory.subspan(i * bytes, bytes));
  }
  return parts;
}

}  // namespace

ConstBytes TensorMemory::input(const at::Tensor& tensor) {
  const at::Tensor memory = tensor.detach().contiguous();
  copies_.push_back({memory, {}});
  return {
      static_cast<const std::byte*>(memory.const_data_ptr()), memory.nbytes()};
}

Bytes TensorMemory::output(const at::Tensor& tensor) {
  const at::Tensor detached = tensor.detach();
  const at::Tensor memory = detached.contiguous();
  copies_.push_back({memory, detached});
  return {static_cast<std::byte*>(memory.data_ptr()), memory.nbytes()};
}

void TensorMemory::copy_back() {
  for (const Copy& copy : copies_) {
    if (copy.tensor.defined() && !copy.memory.is_alias_of(copy.tensor)) {
      copy.tensor.copy_(copy.memory);
    }
  }
}

std::vector<Bytes> equal_parts(Bytes memory, int count) {
  return split(memory, count);
}

std::vector<ConstBytes> equal_parts(ConstBytes memory, int count) {
  return split(memory, count);
}

void check_tensor(const char* operation, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    throw ArgumentError(
        str_cat(operation, " got an undefined tensor"),
        "pass a defined tensor on every rank");
  }
  if (!tensor.device().is_cpu()) {
    throw ArgumentError(
        str_cat(
            operation,
            " on this backend supports only CPU tensors, got a tensor on ",
            tensor.device()),
        "move the tensor with `tensor.cpu()`, or use a backend that supports "
        "its device");
  }
  if (tensor.layout() != at::kStrided) {
    throw ArgumentError(
        str_cat(
            operation,
            " supports only dense tensors, got layout ",
            tensor.layout()),
        "convert with `tensor.to_dense()`");
  }
}

at::Tensor only_tensor(
    const char* operation, const std::vector<at::Tensor>& tensors) {
  check_count(operation, "tensors", tensors.size(), 1);
  check_tensor(operation, tensors[0]);
  return tensors[0];
}

void check_count(
    const char* operation,
    const char* noun,
    std::size_t count,
    std::size_t expected) {
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

void check_rank(const char* operation, int rank, int size) {
  if (rank < 0 || rank >= size) {
    throw ArgumentError(
        str_cat(
            operation,
            ": rank ",
            rank,
            " is not in this group of ",
            size,
            " ranks (0–",
            size - 1,
            ")"),
        str_cat("pass a rank from 0 to ", size - 1));
  }
}

void check_list(
    const char* operation,
    const std::vector<at::Tensor>& list,
    const at::Tensor& single,
    int size) {
  check_count(
      operation, "tensors", list.size(), static_cast<std::size_t>(size));
  for (const at::Tensor& tensor : list) {
    check_tensor(operation, tensor);
    if (tensor.scalar_type() != single.scalar_type() ||
        tensor.numel() != single.numel()) {
      throw ArgumentError(
          str_cat(
              operation,
              ": every tensor in the list must match this rank's tensor ",
              single.scalar_type(),
              single.sizes(),
              ", but one is ",
              tensor.scalar_type(),
              tensor.sizes()),
          "pass tensors with the same type and number of elements");
    }
  }
}

void check_flat(
    const char* operation,
    const at::Tensor& large,
    const at::Tensor& part,
    int size) {
  check_tensor(operation, large);
  check_tensor(operation, part);
  if (large.scalar_type() != part.scalar_type() ||
      large.numel() != part.numel() * size) {
    throw ArgumentError(
        str_cat(
            operation,
            ": the combined tensor is ",
            large.scalar_type(),
            large.sizes(),
            ", but must hold one ",
            part.scalar_type(),
            part.sizes(),
            " tensor for each of the ",
            size,
            " ranks"),
        "pass a combined tensor of the same type, with one part per rank");
  }
}

std::vector<at::Tensor> list_of_root(
    const char* operation,
    const std::vector<std::vector<at::Tensor>>& lists,
    bool is_root) {
  check_count(operation, "tensor lists", lists.size(), is_root ? 1 : 0);
  return is_root ? lists[0] : std::vector<at::Tensor>{};
}

ReduceKind reduce_kind(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
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
    default:
      throw UnsupportedError(
          "this backend supports only the reductions sum, avg, product, min "
          "and max",
          "use one of the supported reductions");
  }
}

}  // namespace accelerate
