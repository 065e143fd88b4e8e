// SPDX-License-Identifier: Apache-2.0
// XLA tensors: their values, and views as functions of the value of a storage.
//
// NOTE [Views]
// An XLA tensor is an ordinary strided tensor over a cell. Its sizes, strides
// and offset say which elements of the cell's dense value it shows. Reading
// turns them into slices, transposes and broadcasts; writing does the inverse
// and puts the result into the cell, so every view of the storage sees it.
// Strides that no such chain describes (overlapping windows) use gather and
// scatter.
#pragma once

#include <ATen/core/Tensor.h>

#include "xla/device/tracer.h"

namespace accelerate::xla {

/// Throws `UnsupportedError` for a type that the device does not have.
ElementType element_type_of(c10::ScalarType type);
c10::ScalarType scalar_type_of(ElementType type);

bool is_xla(const at::Tensor& tensor);
Shape shape_of(const at::Tensor& tensor);

/// The allocator of XLA storages.
c10::Allocator& cell_allocator();
Cell& cell_of(const at::Tensor& tensor);

/// The elements of an XLA tensor.
Value read(const at::Tensor& tensor);
/// Sets them, converted and broadcast to the tensor's type and shape.
void write(const at::Tensor& tensor, const Value& value);
/// A new contiguous tensor.
at::Tensor make_tensor(const Value& value);

at::Tensor empty(at::IntArrayRef sizes, c10::ScalarType type);

/// Copies the elements of a contiguous CPU tensor into a value.
Value upload(const at::Tensor& tensor, const Sharding& sharding = {});
/// Computes the elements of an XLA tensor and copies them to the contiguous CPU
/// tensor `to` of the same type and shape.
void download(const at::Tensor& from, const at::Tensor& to);

}  // namespace accelerate::xla
