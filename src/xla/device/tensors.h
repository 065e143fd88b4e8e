// SPDX-License-Identifier: Apache-2.0
// Reads and writes the elements of XLA tensors, including views.
//
// NOTE [Views]
// An XLA tensor is an ordinary strided tensor whose storage is a cell. The
// tensor's sizes, strides and offset select elements of the cell's dense value.
// To read a tensor, this selection is converted to slices, transposes and
// broadcasts of the dense value. To write, the inverse operations produce a new
// value for the cell, so every view of the storage sees the change. Strides
// that such operations cannot express, such as overlapping windows, use gather
// and scatter.
#pragma once

#include <ATen/core/Tensor.h>

#include "xla/device/tracer.h"

namespace accelerate::xla {

/// Returns the XLA element type for a LibTorch scalar type. Throws
/// `UnsupportedError` if the device does not support the type.
ElementType element_type_of(c10::ScalarType type);
c10::ScalarType scalar_type_of(ElementType type);

bool is_xla(const at::Tensor& tensor);
Shape shape_of(const at::Tensor& tensor);

/// Returns the allocator for the storages of XLA tensors.
c10::Allocator& cell_allocator();
Cell& cell_of(const at::Tensor& tensor);

/// Returns the elements of an XLA tensor.
Value read(const at::Tensor& tensor);
/// Sets the elements of an XLA tensor to `value`, converted to the tensor's
/// type and broadcast to its shape.
void write(const at::Tensor& tensor, const Value& value);
/// Returns a new contiguous tensor whose elements are `value`.
at::Tensor make_tensor(const Value& value);

at::Tensor empty(at::IntArrayRef sizes, c10::ScalarType type);

/// Copies the elements of a contiguous CPU tensor to device memory. Returns
/// them as a value.
Value upload(const at::Tensor& tensor, const Sharding& sharding = {});
/// Computes the elements of an XLA tensor and copies them to the contiguous CPU
/// tensor `to` of the same type and shape.
void download(const at::Tensor& from, const at::Tensor& to);

}  // namespace accelerate::xla
