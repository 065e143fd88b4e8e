// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_places.h"

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
      "for a checkpoint that is loaded",
      "a load needs room for one copy of the state until it is verified");
}

std::size_t bytes_of(const SafetensorsEntry& entry) {
  return static_cast<std::size_t>(entry.end - entry.begin);
}

/// A tensor that lies in files as ranges.
struct Whole {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<std::int64_t> shape;
  std::size_t elements = 1;
  /// In the memory of all.
  std::size_t place = 0;
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
    throw FormatError(
        str_cat(file.string(), ": `", name, "` does not say where it begins"));
  }
  return {name.substr(0, at), static_cast<std::size_t>(first)};
}

Whole whole_of(
    const std::string& name, const Json& form, const fs::path& folder) {
  Whole whole;
  const auto dtype = dtype_from_safetensors(form.at("dtype").as_string());
  if (!dtype) {
    throw FormatError(
        str_cat(folder.string(), ": `", name, "` has no type LibTorch knows"));
  }
  whole.dtype = *dtype;
  for (const Json& size : form.at("shape").as_array()) {
    whole.shape.push_back(size.as_integer());
    if (size.as_integer() < 0 ||
        __builtin_mul_overflow(
            whole.elements,
            static_cast<std::size_t>(size.as_integer()),
            &whole.elements)) {
      throw FormatError(str_cat(
          folder.string(),
          ": `",
          name,
          "` cannot have a size of ",
          size.dump()));
    }
  }
  return whole;
}

/// The whole tensors of some files, by name.
class Wholes {
 public:
  Wholes(const Json& shapes, const fs::path& folder) : folder_(folder) {
    for (const auto& [name, form] : shapes.as_object()) {
      wholes_.emplace(name, whole_of(name, form, folder));
    }
  }

  void add_range(const TensorFileToRead& file, const SafetensorsEntry& entry) {
    const auto [name, first] = split_range_name(entry.name, file.path);
    const auto found = wholes_.find(name);
    if (found == wholes_.end() ||
        found->second.dtype != dtype_of(entry, file.path.string())) {
      throw FormatError(str_cat(
          file.path.string(),
          ": `",
          entry.name,
          found == wholes_.end() ? "` belongs to nothing"
                                 : "` is of another type than the whole"));
    }
    found->second.ranges.emplace_back(
        first, bytes_of(entry) / c10::elementSize(found->second.dtype));
  }

  /// Throws unless the ranges make up each tensor; the bytes of all. First
  /// come those that a `PageFiller` can fill: large ones in one piece, each at
  /// the beginning of a page.
  struct Arranged {
    std::size_t bytes = 0;
    std::size_t fillable = 0;
  };
  Arranged arrange() {
    Arranged arranged;
    for (auto& [name, whole] : wholes_) {
      check_ranges(name, whole);
      if (is_fillable(whole)) {
        whole.place = arranged.fillable;
        arranged.fillable += aligned_to_pages(whole.bytes());
      }
    }
    arranged.bytes = arranged.fillable;
    for (auto& [name, whole] : wholes_) {
      if (!is_fillable(whole)) {
        whole.place = arranged.bytes;
        arranged.bytes += aligned_for_tensors(whole.bytes());
      }
    }
    return arranged;
  }

  std::byte* target(
      const TensorFileToRead& file,
      const SafetensorsEntry& entry,
      std::byte* memory) const {
    const auto [name, first] = split_range_name(entry.name, file.path);
    const Whole& whole = wholes_.at(name);
    return memory + whole.place + first * c10::elementSize(whole.dtype);
  }

  TensorMap tensors(const std::shared_ptr<FreshMemory>& memory) const {
    TensorMap result;
    for (const auto& [name, whole] : wholes_) {
      result.emplace(
          name,
          at::from_blob(
              memory->data() + whole.place,
              whole.shape,
              [memory](void*) {},
              at::TensorOptions(whole.dtype)));
    }
    return result;
  }

 private:
  static bool is_fillable(const Whole& whole) {
    return whole.ranges.size() == 1 && whole.bytes() >= kWorthPages;
  }

  void check_ranges(const std::string& name, Whole& whole) const {
    std::ranges::sort(whole.ranges);
    std::size_t reached = 0;
    bool meet = true;
    for (const auto& [first, elements] : whole.ranges) {
      meet = meet && first == reached;
      reached += meet ? elements : 0;
    }
    if (!meet || reached != whole.elements) {
      throw FormatError(str_cat(
          folder_.string(),
          ": the ranges of `",
          name,
          "` do not meet at element ",
          reached));
    }
  }

  fs::path folder_;
  std::map<std::string, Whole> wholes_;
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

TensorMap place_weights(const std::span<TensorFileToRead> files) {
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

TensorMap place_ranges(
    const std::span<TensorFileToRead> files,
    const Json& shapes,
    const fs::path& folder,
    const bool may_map) {
  Wholes wholes(shapes, folder);
  for (const TensorFileToRead& file : files) {
    for (const SafetensorsEntry& entry : file.header.tensors) {
      wholes.add_range(file, entry);
    }
  }
  const auto arranged = wholes.arrange();
  const auto memory = memory_for(arranged.bytes);
  const std::shared_ptr<PageFiller> filler =
      may_map ? PageFiller::over(memory->data(), arranged.fillable) : nullptr;
  for (TensorFileToRead& file : files) {
    if (filler) {
      fill_from_mapping(file, filler);
    }
    for (const SafetensorsEntry& entry : file.header.tensors) {
      file.targets.push_back(wholes.target(file, entry, memory->data()));
    }
  }
  return wholes.tensors(memory);
}

}  // namespace accelerate
