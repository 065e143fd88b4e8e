// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_targets.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "checkpoint/fresh_memory.h"
#include "tensor_io/safetensors_dtype.h"
#include "tensor_io/safetensors_view.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<FreshMemory> memory_for(const std::size_t bytes) {
  return std::make_shared<FreshMemory>(
      std::max(bytes, kTensorAlignment),
      "to load a checkpoint",
      "free enough memory for a second copy of the state, which loading needs "
      "until the checkpoint is verified");
}

std::size_t bytes_of(const SafetensorsEntry& entry) {
  return static_cast<std::size_t>(entry.end - entry.begin);
}

/// A tensor that files contain as ranges.
struct RangedTensor {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<std::int64_t> shape;
  std::size_t elements = 1;
  /// Offset in the memory of all tensors.
  std::size_t offset = 0;
  /// First element and number of elements of each range.
  std::vector<std::pair<std::size_t, std::size_t>> ranges;

  std::size_t bytes() const { return elements * c10::elementSize(dtype); }
};

/// A range's tensor and first element: `head.weight.exp_avg@4096`.
struct RangeName {
  std::string tensor;
  std::size_t first = 0;
};

RangeName split_range_name(const std::string& name, const fs::path& file) {
  const auto at = name.rfind('@');
  std::int64_t first = -1;
  if (at != name.npos) {
    const char* begin = name.data() + at + 1;
    const char* end = name.data() + name.size();
    const auto [reached, error] = std::from_chars(begin, end, first);
    if (error != std::errc() || reached != end) {
      first = -1;
    }
  }
  if (first < 0) {
    throw FormatError(str_cat(
        file.string(),
        ": `",
        name,
        "` is not the name of a range; expected a name such as "
        "`weight@4096`"));
  }
  return {name.substr(0, at), static_cast<std::size_t>(first)};
}

RangedTensor ranged_tensor(
    const std::string& name, const Json& shape, const fs::path& folder) {
  RangedTensor tensor;
  const auto dtype = dtype_from_safetensors(shape.at("dtype").as_string());
  if (!dtype) {
    throw FormatError(str_cat(
        folder.string(),
        ": tensor `",
        name,
        "` has a type that LibTorch does not support"));
  }
  tensor.dtype = *dtype;
  for (const Json& size : shape.at("shape").as_array()) {
    tensor.shape.push_back(size.as_integer());
    if (size.as_integer() < 0 ||
        __builtin_mul_overflow(
            tensor.elements,
            static_cast<std::size_t>(size.as_integer()),
            &tensor.elements)) {
      throw FormatError(str_cat(
          folder.string(),
          ": tensor `",
          name,
          "` has an impossible dimension: ",
          size.dump()));
    }
  }
  return tensor;
}

/// The tensors of some files that consist of ranges, by name.
class RangedTensors {
 public:
  RangedTensors(const Json& shapes, const fs::path& folder) : folder_(folder) {
    for (const auto& [name, shape] : shapes.as_object()) {
      tensors_.emplace(name, ranged_tensor(name, shape, folder));
    }
  }

  void add_range(const TensorFileToRead& file, const SafetensorsEntry& entry) {
    const auto [name, first] = split_range_name(entry.name, file.path);
    const auto found = tensors_.find(name);
    if (found == tensors_.end() ||
        found->second.dtype != dtype_of(entry, file.path.string())) {
      throw FormatError(str_cat(
          file.path.string(),
          ": range `",
          entry.name,
          found == tensors_.end()
              ? "` belongs to no tensor in the checkpoint"
              : "` does not have the same type as the tensor it belongs to"));
    }
    found->second.ranges.emplace_back(
        first, bytes_of(entry) / c10::elementSize(found->second.dtype));
  }

  /// The number of bytes of all tensors, and of the leading ones that a
  /// `PageFiller` can fill: large tensors with a single range, each at the
  /// beginning of a page.
  struct Layout {
    std::size_t bytes = 0;
    std::size_t fillable = 0;
  };
  /// Assigns the offsets. Throws unless the ranges make up each tensor.
  Layout arrange() {
    Layout layout;
    for (auto& [name, tensor] : tensors_) {
      check_ranges(name, tensor);
      if (is_fillable(tensor)) {
        tensor.offset = layout.fillable;
        layout.fillable += aligned_to_pages(tensor.bytes());
      }
    }
    layout.bytes = layout.fillable;
    for (auto& [name, tensor] : tensors_) {
      if (!is_fillable(tensor)) {
        tensor.offset = layout.bytes;
        layout.bytes += aligned_for_tensors(tensor.bytes());
      }
    }
    return layout;
  }

  std::byte* target(
      const TensorFileToRead& file,
      const SafetensorsEntry& entry,
      std::byte* memory) const {
    const auto [name, first] = split_range_name(entry.name, file.path);
    const RangedTensor& tensor = tensors_.at(name);
    return memory + tensor.offset + first * c10::elementSize(tensor.dtype);
  }

  TensorMap tensors(const std::shared_ptr<FreshMemory>& memory) const {
    TensorMap result;
    for (const auto& [name, tensor] : tensors_) {
      result.emplace(
          name,
          at::from_blob(
              memory->data() + tensor.offset,
              tensor.shape,
              [memory](void*) {},
              at::TensorOptions(tensor.dtype)));
    }
    return result;
  }

 private:
  static bool is_fillable(const RangedTensor& tensor) {
    return tensor.ranges.size() == 1 && tensor.bytes() >= kMinPageAlignedBytes;
  }

  void check_ranges(const std::string& name, RangedTensor& tensor) const {
    std::ranges::sort(tensor.ranges);
    std::size_t reached = 0;
    bool contiguous = true;
    for (const auto& [first, elements] : tensor.ranges) {
      contiguous = contiguous && first == reached;
      reached += contiguous ? elements : 0;
    }
    if (!contiguous || reached != tensor.elements) {
      throw FormatError(str_cat(
          folder_.string(),
          ": the ranges of tensor `",
          name,
          "` do not cover it exactly once: there is a gap or an "
          "overlap at element ",
          reached));
    }
  }

  fs::path folder_;
  std::map<std::string, RangedTensor> tensors_;
};

void add_aliases(
    TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  for (const auto& [alias, name] : metadata) {
    if (const auto found = tensors.find(name); found != tensors.end()) {
      tensors.try_emplace(alias, found->second);
    }
  }
}

}  // namespace

TensorMap allocate_weights(const std::span<TensorFileToRead> files) {
  std::size_t bytes = 0;
  for (const TensorFileToRead& file : files) {
    for (const SafetensorsEntry& entry : file.header.tensors) {
      bytes += file.mapping ? 0 : aligned_for_tensors(bytes_of(entry));
    }
  }
  const auto memory = memory_for(bytes);
  std::byte* to = memory->data();
  TensorMap tensors;
  for (TensorFileToRead& file : files) {
    const std::string path = file.path.string();
    for (const SafetensorsEntry& entry : file.header.tensors) {
      if (file.mapping) {
        std::byte* from = file.mapping->data() + entry.begin;
        tensors.emplace(entry.name, view_of(entry, from, file.mapping, path));
        continue;
      }
      tensors.emplace(entry.name, view_of(entry, to, memory, path));
      file.targets.push_back(to);
      to += aligned_for_tensors(bytes_of(entry));
    }
    add_aliases(tensors, file.header.metadata);
  }
  return tensors;
}

TensorMap allocate_ranges(
    const std::span<TensorFileToRead> files,
    const Json& shapes,
    const fs::path& folder,
    const bool may_map) {
  RangedTensors tensors(shapes, folder);
  for (const TensorFileToRead& file : files) {
    for (const SafetensorsEntry& entry : file.header.tensors) {
      tensors.add_range(file, entry);
    }
  }
  const auto layout = tensors.arrange();
  const auto memory = memory_for(layout.bytes);
  const std::shared_ptr<PageFiller> filler =
      may_map ? PageFiller::over(memory->data(), layout.fillable) : nullptr;
  for (TensorFileToRead& file : files) {
    if (filler) {
      fill_from_mapping(file, filler);
    }
    for (const SafetensorsEntry& entry : file.header.tensors) {
      file.targets.push_back(tensors.target(file, entry, memory->data()));
    }
  }
  return tensors.tensors(memory);
}

}  // namespace accelerate
