// SPDX-License-Identifier: Apache-2.0
// Kernels that make, view and copy tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "accelerate/error.h"
#include "xla/device/registration.h"
#include "xla/device/tensors.h"
#include "xla/graph/build.h"

namespace accelerate::xla {
namespace {

using OptionalType = std::optional<c10::ScalarType>;
using OptionalLayout = std::optional<c10::Layout>;
using OptionalDevice = std::optional<c10::Device>;

const c10::DispatchKeySet kKeys(c10::DispatchKey::XLA);

at::Tensor empty_memory_format(
    at::IntArrayRef sizes,
    OptionalType type,
    OptionalLayout /*layout*/,
    OptionalDevice /*device*/,
    std::optional<bool> /*pin_memory*/,
    std::optional<c10::MemoryFormat> format) {
  return at::detail::empty_generic(
      sizes, &cell_allocator(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    OptionalType type,
    OptionalLayout /*layout*/,
    OptionalDevice /*device*/,
    std::optional<bool> /*pin_memory*/) {
  return at::detail::empty_strided_generic(
      sizes, strides, &cell_allocator(), kKeys, c10::dtype_or_default(type));
}

// Copies a CPU tensor to the device, converted to the type of `like` and
// broadcast to its shape.
Value uploaded(const at::Tensor& from, const at::Tensor& like) {
  const at::Tensor converted =
      from.to(like.scalar_type()).expand(like.sizes()).contiguous();
  return upload(converted);
}

at::Tensor downloaded(const at::Tensor& from) {
  at::Tensor to = at::empty(from.sizes(), from.options().device(c10::kCPU));
  download(from, to);
  return to;
}

at::Tensor& copy_(at::Tensor& to, const at::Tensor& from, bool /*async*/) {
  Tracer& all = tracer();
  const auto lock = all.lock();
  if (!is_xla(to)) {
    return to.copy_(downloaded(from));
  }
  if (is_xla(from)) {
    write(to, read(from));
  } else if (to.numel() > 0) {
    write(to, uploaded(from, to));
  }
  return to;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool async) {
  at::Tensor target = to;
  return copy_(target, from, async);
}

const at::Tensor& resize_(
    const at::Tensor& self,
    at::IntArrayRef sizes,
    std::optional<c10::MemoryFormat> /*format*/) {
  Tracer& all = tracer();
  const auto lock = all.lock();
  at::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  const std::size_t bytes =
      static_cast<std::size_t>(impl->storage_offset() + impl->numel()) *
      impl->itemsize();
  if (bytes > self.storage().nbytes()) {
    // The old elements are not kept: out= arguments are overwritten.
    self.storage().unsafeGetStorageImpl()->set_nbytes(bytes);
    cell_of(self).value = nullptr;
  }
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) {
    to.resize_(from.sizes());
  }
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  Tracer& all = tracer();
  const auto lock = all.lock();
  return downloaded(self).item();
}

at::Tensor as_strided(
    const at::Tensor& self,
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  return at::native::view(self, sizes);
}

at::Tensor reshape_alias(
    const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, sizes, strides);
}

at::Tensor unfold(
    const at::Tensor& self,
    std::int64_t dim,
    std::int64_t size,
    std::int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}

// Whether `module.to(device)` may replace a parameter's data in place.
bool has_compatible_shallow_copy_type(
    const at::Tensor& /*self*/, const at::Tensor& /*from*/) {
  return true;
}

// A tensor equals itself. MultiheadAttention makes this comparison twice per
// layer, and waiting for the device would split the program in two.
bool equal(const at::Tensor& a, const at::Tensor& b) {
  Tracer& all = tracer();
  const auto lock = all.lock();
  if (a.sizes() != b.sizes()) {
    return false;
  }
  if (is_xla(a) && is_xla(b) && a.is_same(b)) {
    return true;
  }
  const bool same_value = is_xla(a) && is_xla(b) &&
                          a.scalar_type() == b.scalar_type() &&
                          read(a) == read(b);
  return same_value || downloaded(a).equal(downloaded(b));
}

}  // namespace

void register_tensor_kernels(torch::Library& aten) {
  aten.impl("empty.memory_format", &empty_memory_format);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("as_strided", &as_strided);
  aten.impl("view", &view);
  aten.impl("_reshape_alias", &reshape_alias);
  aten.impl("unfold", &unfold);
  aten.impl("copy_", &copy_);
  aten.impl("_copy_from", &copy_from);
  aten.impl("_copy_from_and_resize", &copy_from_and_resize);
  aten.impl("resize_", &resize_);
  aten.impl("_local_scalar_dense", &local_scalar_dense);
  aten.impl(
      "_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  aten.impl("equal", &equal);
  aten.impl("set_.source_Tensor", &set_source_tensor);
}

}  // namespace accelerate::xla
