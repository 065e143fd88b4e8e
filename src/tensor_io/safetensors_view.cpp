// SPDX-License-Identifier: Apache-2.0
#include "tensor_io/safetensors_view.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tensor_io/safetensors_dtype.h"

namespace accelerate {

std::vector<std::int64_t> shape_of(
    const SafetensorsEntry& entry, const std::string& path) {
  std::vector<std::int64_t> shape = entry.shape;
  if (entry.dtype == "F4") {
    if (shape.empty() || shape.back() % 2 != 0) {
      throw UnsupportedError(str_cat(
          path,
          ": tensor `",
          printable(entry.name),
          "` has rows with an odd number of F4 elements, but LibTorch packs F4 "
          "elements in pairs"));
    }
    shape.back() /= 2;
  }
  return shape;
}

c10::ScalarType dtype_of(
    const SafetensorsEntry& entry, const std::string& path) {
  const auto dtype = dtype_from_safetensors(entry.dtype);
  if (!dtype) {
    throw UnsupportedError(str_cat(
        path,
        ": tensor `",
        printable(entry.name),
        "` is of type ",
        entry.dtype,
        ", which LibTorch does not support"));
  }
  return *dtype;
}

at::Tensor view_of(
    const SafetensorsEntry& entry,
    std::byte* data,
    std::shared_ptr<const void> owner,
    const std::string& path) {
  const auto dtype = dtype_of(entry, path);
  const auto shape = shape_of(entry, path);
  const auto options = at::TensorOptions().dtype(dtype);
  if (reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(dtype) != 0) {
    // LibTorch's kernels may rely on alignment. Tensors in files from other
    // writers may be unaligned.
    const at::Tensor copy = at::empty(shape, options);
    std::memcpy(copy.mutable_data_ptr(), data, entry.end - entry.begin);
    return copy;
  }
  return at::from_blob(
      data, shape, [keep = std::move(owner)](void*) {}, options);
}

}  // namespace accelerate
