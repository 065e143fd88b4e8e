// SPDX-License-Identifier: Apache-2.0
#include "xla/device/tensors.h"

#include <algorithm>
#include <optional>

#include <ATen/EmptyTensor.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/graph/build.h"

namespace accelerate::xla {
namespace {

void delete_cell(void* cell) {
  Tracer& all = tracer();
  const auto lock = all.lock();
  all.destroy_cell(static_cast<Cell*>(cell));
}

// Storages have no memory, but each storage has its own addresses, because code
// that looks for shared memory compares addresses. A CPU cannot access these
// addresses.
class CellAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    constexpr std::uintptr_t kAlignment = 64;
    Tracer& all = tracer();
    const auto lock = all.lock();
    Cell* cell = all.make_cell();
    auto* const address = reinterpret_cast<void*>(next_);  // NOLINT
    next_ += (bytes / kAlignment + 1) * kAlignment;
    return {address, cell, &delete_cell, c10::Device(c10::kXLA, 0)};
  }
  void copy_data(void*, const void*, std::size_t) const override {
    throw InternalError("LibTorch copied the memory of an XLA storage");
  }

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 60U;
};

std::int64_t storage_count(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(
      tensor.storage().nbytes() / tensor.itemsize());
}

bool covers_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_contiguous() &&
         tensor.numel() == storage_count(tensor);
}

Value storage_value(const at::Tensor& tensor) {
  Cell& cell = cell_of(tensor);
  const ElementType type = element_type_of(tensor.scalar_type());
  if (cell.value == nullptr) {
    cell.value = constant(0, type, {storage_count(tensor)});
  }
  if (cell.value->type != type) {
    throw UnsupportedError(
        str_cat(
            "an XLA tensor of type ",
            name_of(cell.value->type),
            " cannot be viewed as ",
            name_of(type)),
        "convert it with `to`, or view it on the CPU");
  }
  return cell.value;
}

// A strided view, expressed as a slice of the storage reshaped to `dense`,
// which has the dimensions of the view in order of decreasing stride, each as
// long as the storage allows.
struct StridedView {
  Shape dense;
  Dims from;
  Dims to;
  Dims shown;      ///< Dimensions of the tensor with more than one element.
  Dims by_stride;  ///< The same, in order of decreasing stride.
  Shape sizes_by_stride;
  bool expanded = false;  ///< Some dimension has stride 0.
  bool whole = true;      ///< The view shows all of the storage.
};

std::int64_t at_dim(at::IntArrayRef list, std::int64_t dim) {
  return list[static_cast<std::size_t>(dim)];
}

void collect_dimensions(const at::Tensor& tensor, StridedView& view) {
  const auto strides = tensor.strides();
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) == 1) {
      continue;
    }
    if (at_dim(strides, dim) == 0) {
      view.expanded = true;
      view.whole = false;
    } else {
      view.shown.push_back(dim);
    }
  }
  view.by_stride = view.shown;
  std::stable_sort(
      view.by_stride.begin(),
      view.by_stride.end(),
      [strides](std::int64_t a, std::int64_t b) {
        return at_dim(strides, a) > at_dim(strides, b);
      });
}

// Returns nothing if no slice of a dense array has these strides.
std::optional<StridedView> decode(const at::Tensor& tensor) {
  StridedView view;
  collect_dimensions(tensor, view);
  std::int64_t block = storage_count(tensor);
  std::int64_t offset = tensor.storage_offset();
  const auto append =
      [&view](std::int64_t size, std::int64_t from, std::int64_t shown) {
        view.dense.push_back(size);
        view.from.push_back(from);
        view.to.push_back(from + shown);
        view.whole = view.whole && size == shown;
      };
  for (const std::int64_t dim : view.by_stride) {
    const std::int64_t stride = tensor.stride(dim);
    if (stride <= 0 || block % stride != 0 ||
        offset / stride + tensor.size(dim) > block / stride) {
      return std::nullopt;
    }
    append(block / stride, offset / stride, tensor.size(dim));
    view.sizes_by_stride.push_back(tensor.size(dim));
    offset %= stride;
    block = stride;
  }
  if (block > 1) {
    append(block, offset, 1);
  }
  return view;
}

Dims positions_in(const Dims& wanted, const Dims& list) {
  Dims positions;
  for (const std::int64_t dim : wanted) {
    positions.push_back(
        std::find(list.begin(), list.end(), dim) - list.begin());
  }
  return positions;
}

// The flat storage index of each element, [count, 1].
Value flat_indices(const at::Tensor& tensor) {
  const Shape shape = shape_of(tensor);
  Value index =
      constant_integer(tensor.storage_offset(), ElementType::i64, shape);
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) > 1 && tensor.stride(dim) != 0) {
      const Value step = constant_integer(tensor.stride(dim), ElementType::i64);
      index = binary(
          Op::add,
          index,
          binary(Op::multiply, iota(ElementType::i64, shape, dim), step));
    }
  }
  return reshape(index, {tensor.numel(), 1});
}

Value read_view(const at::Tensor& tensor, const StridedView& view) {
  const Shape shape = shape_of(tensor);
  const Value base = reshape(storage_value(tensor), view.dense);
  const Value part =
      reshape(slice(base, view.from, view.to), view.sizes_by_stride);
  const Value ordered =
      transpose(part, positions_in(view.shown, view.by_stride));
  return view.expanded ? broadcast_in_dim(ordered, shape, view.shown)
                       : reshape(ordered, shape);
}

Value written_view(
    const at::Tensor& tensor, const StridedView& view, const Value& value) {
  Shape shown;
  for (const std::int64_t dim : view.shown) {
    shown.push_back(tensor.size(dim));
  }
  const Value ordered = transpose(
      reshape(value, shown), positions_in(view.by_stride, view.shown));
  if (view.whole) {
    return ordered;
  }
  Shape part;
  for (std::size_t i = 0; i < view.from.size(); ++i) {
    part.push_back(view.to[i] - view.from[i]);
  }
  return update_slice(
      reshape(storage_value(tensor), view.dense),
      reshape(ordered, part),
      view.from);
}

Value flat_storage(const at::Tensor& tensor) {
  return reshape(storage_value(tensor), {storage_count(tensor)});
}

}  // namespace

ElementType element_type_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return ElementType::f32;
    case c10::ScalarType::Double:
      return ElementType::f64;
    case c10::ScalarType::Half:
      return ElementType::f16;
    case c10::ScalarType::BFloat16:
      return ElementType::bf16;
    case c10::ScalarType::Long:
      return ElementType::i64;
    case c10::ScalarType::Int:
      return ElementType::i32;
    case c10::ScalarType::Short:
      return ElementType::i16;
    case c10::ScalarType::Char:
      return ElementType::i8;
    case c10::ScalarType::Byte:
      return ElementType::u8;
    case c10::ScalarType::Bool:
      return ElementType::pred;
    default:
      throw UnsupportedError(str_cat(
          "the XLA device does not support tensors of type ", toString(type)));
  }
}

c10::ScalarType scalar_type_of(ElementType type) {
  static constexpr c10::ScalarType kTypes[] = {
      c10::ScalarType::Float,
      c10::ScalarType::Double,
      c10::ScalarType::Half,
      c10::ScalarType::BFloat16,
      c10::ScalarType::Long,
      c10::ScalarType::Int,
      c10::ScalarType::Short,
      c10::ScalarType::Char,
      c10::ScalarType::Byte,
      c10::ScalarType::Bool};
  return kTypes[static_cast<std::size_t>(type)];
}

bool is_xla(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_xla();
}

Shape shape_of(const at::Tensor& tensor) {
  return tensor.sizes().vec();
}

c10::Allocator& cell_allocator() {
  static CellAllocator allocator;
  return allocator;
}

Cell& cell_of(const at::Tensor& tensor) {
  return *static_cast<Cell*>(
      tensor.storage().unsafeGetStorageImpl()->data_ptr().get_context());
}

Value read(const at::Tensor& tensor) {
  const Shape shape = shape_of(tensor);
  if (tensor.numel() == 0) {
    return constant(0, element_type_of(tensor.scalar_type()), shape);
  }
  if (covers_storage(tensor)) {
    return reshape(storage_value(tensor), shape);
  }
  if (const auto view = decode(tensor)) {
    return read_view(tensor, *view);
  }
  return reshape(take_at(flat_storage(tensor), flat_indices(tensor)), shape);
}

void write(const at::Tensor& tensor, const Value& value) {
  if (tensor.numel() == 0) {
    return;
  }
  const Value converted = broadcast(
      convert(value, element_type_of(tensor.scalar_type())), shape_of(tensor));
  Cell& cell = cell_of(tensor);
  if (covers_storage(tensor)) {
    cell.value = converted;
    return;
  }
  const auto view = decode(tensor);
  if (view && view->expanded) {
    throw ArgumentError(
        "an expanded tensor cannot be written in place: several of its "
        "elements share memory",
        "call `clone()` first");
  }
  cell.value = view ? written_view(tensor, *view, converted)
                    : put_at(
                          Scatter::set,
                          flat_storage(tensor),
                          flat_indices(tensor),
                          reshape(converted, {tensor.numel()}));
}

at::Tensor empty(at::IntArrayRef sizes, c10::ScalarType type) {
  return at::detail::empty_generic(
      sizes,
      &cell_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::XLA),
      type,
      std::nullopt);
}

at::Tensor make_tensor(const Value& value) {
  at::Tensor tensor = empty(value->shape, scalar_type_of(value->type));
  if (tensor.numel() > 0) {
    cell_of(tensor).value = value;
  }
  return tensor;
}

Value upload(const at::Tensor& tensor, const Sharding& sharding) {
  return tracer().runner().upload(
      tensor.const_data_ptr(),
      element_type_of(tensor.scalar_type()),
      shape_of(tensor),
      sharding);
}

void download(const at::Tensor& from, const at::Tensor& to) {
  if (from.numel() == 0) {
    return;
  }
  Tracer& all = tracer();
  const Value value = all.computed(read(from));
  all.runner().download(*value, to.mutable_data_ptr());
}

}  // namespace accelerate::xla
