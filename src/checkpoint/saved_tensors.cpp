// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saved_tensors.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tensor_io/safetensors_dtype.h"
#include "tensor_io/safetensors_view.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

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

SavedTensor ranged_tensor(
    const std::string& name, const Json& shape, const fs::path& folder) {
  SavedTensor tensor;
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

std::size_t elements_of(
    const SafetensorsEntry& entry, const c10::ScalarType dtype) {
  return static_cast<std::size_t>(entry.end - entry.begin) /
         c10::elementSize(dtype);
}

void add_range(
    SavedTensors& tensors, const TensorFileToRead& file, SavedPiece piece) {
  const SafetensorsEntry& entry = file.header.tensors[piece.entry];
  const auto [name, first] = split_range_name(entry.name, file.path);
  const auto found = tensors.find(name);
  if (found == tensors.end() ||
      found->second.dtype != dtype_of(entry, file.path.string())) {
    throw FormatError(str_cat(
        file.path.string(),
        ": range `",
        entry.name,
        found == tensors.end()
            ? "` belongs to no tensor in the checkpoint"
            : "` does not have the same type as the tensor it belongs to"));
  }
  piece.first = first;
  piece.elements = elements_of(entry, found->second.dtype);
  found->second.pieces.push_back(piece);
}

void check_pieces(
    const std::string& name, SavedTensor& tensor, const fs::path& folder) {
  std::ranges::sort(tensor.pieces, {}, [](const SavedPiece& piece) {
    return std::tuple(piece.first, piece.elements);
  });
  std::size_t reached = 0;
  bool contiguous = true;
  for (const SavedPiece& piece : tensor.pieces) {
    contiguous = contiguous && piece.first == reached;
    reached += contiguous ? piece.elements : 0;
  }
  if (!contiguous || reached != tensor.elements) {
    throw FormatError(str_cat(
        folder.string(),
        ": the ranges of tensor `",
        name,
        "` do not cover it exactly once: there is a gap or an "
        "overlap at element ",
        reached));
  }
}

}  // namespace

SavedTensors whole_tensors_in(const std::span<const TensorFileToRead> files) {
  SavedTensors tensors;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string path = files[f].path.string();
    const auto& entries = files[f].header.tensors;
    for (std::size_t e = 0; e < entries.size(); ++e) {
      SavedTensor tensor;
      tensor.dtype = dtype_of(entries[e], path);
      tensor.shape = shape_of(entries[e], path);
      tensor.elements = elements_of(entries[e], tensor.dtype);
      tensor.pieces = {
          {.file = f, .entry = e, .first = 0, .elements = tensor.elements}};
      tensors.emplace(entries[e].name, std::move(tensor));
    }
    for (const auto& [alias, name] : files[f].header.metadata) {
      if (const auto found = tensors.find(name); found != tensors.end()) {
        tensors.try_emplace(alias, found->second);
      }
    }
  }
  return tensors;
}

SavedTensors ranged_tensors_in(
    const std::span<const TensorFileToRead> files,
    const Json& shapes,
    const fs::path& folder) {
  SavedTensors tensors;
  for (const auto& [name, shape] : shapes.as_object()) {
    tensors.emplace(name, ranged_tensor(name, shape, folder));
  }
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (std::size_t e = 0; e < files[f].header.tensors.size(); ++e) {
      add_range(tensors, files[f], {.file = f, .entry = e});
    }
  }
  for (auto& [name, tensor] : tensors) {
    check_pieces(name, tensor, folder);
  }
  return tensors;
}

}  // namespace accelerate
