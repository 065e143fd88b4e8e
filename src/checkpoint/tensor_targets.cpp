// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_targets.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "checkpoint/fresh_memory.h"
#include "checkpoint/parts.h"

namespace accelerate {
namespace {

std::shared_ptr<FreshMemory> memory_for(const std::size_t bytes) {
  return std::make_shared<FreshMemory>(
      std::max(bytes, kTensorAlignment),
      "to load a checkpoint",
      "free enough memory for a second copy of the state: loading keeps both "
      "copies until the checkpoint is verified");
}

at::Tensor tensor_at(
    std::byte* data,
    const std::vector<std::int64_t>& shape,
    const c10::ScalarType dtype,
    const std::shared_ptr<FreshMemory>& memory) {
  return at::from_blob(
      data, shape, [memory](void*) {}, at::TensorOptions(dtype));
}

// Whether a `PageFiller` can fill the tensor: it is large and has one piece.
bool is_fillable(const SavedTensor& tensor) {
  return tensor.pieces.size() == 1 && tensor.bytes() >= kMinPageAlignedBytes;
}

/// The positions of tensors in a block of memory. Tensors that a `PageFiller`
/// can fill come first, each at the beginning of a page.
struct MemoryLayout {
  explicit MemoryLayout(const SavedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      if (is_fillable(tensor)) {
        offsets[name] = fillable;
        fillable += aligned_to_pages(tensor.bytes());
      }
    }
    bytes = fillable;
    for (const auto& [name, tensor] : tensors) {
      if (!is_fillable(tensor)) {
        offsets[name] = bytes;
        bytes += aligned_for_tensors(tensor.bytes());
      }
    }
  }

  std::map<std::string, std::size_t> offsets;
  std::size_t fillable = 0;
  std::size_t bytes = 0;
};

const SavedTensor& requested_tensor(
    const SavedTensors& tensors,
    const RangeRequest& request,
    const std::string& key) {
  const auto found = tensors.find(request.name);
  if (found == tensors.end()) {
    throw ArgumentError(
        str_cat("`", key, "` has no tensor `", request.name, "`"));
  }
  const auto elements = static_cast<std::int64_t>(found->second.elements);
  if (request.offset < 0 || request.length < 0 || request.offset > elements ||
      request.length > elements - request.offset) {
    throw ArgumentError(str_cat(
        "elements ",
        describe_range(request.offset, request.length),
        " of tensor `",
        request.name,
        "` in `",
        key,
        "` were requested, but the tensor has only elements ",
        describe_range(0, elements)));
  }
  return found->second;
}

// Adds the file ranges that a request overlaps.
void add_reads(
    std::vector<FileRange>& reads,
    const std::span<const TensorFileToRead> files,
    const SavedTensor& tensor,
    const RangeRequest& request,
    std::byte* to) {
  const std::size_t size = c10::elementSize(tensor.dtype);
  const auto begin = static_cast<std::size_t>(request.offset);
  const auto end = begin + static_cast<std::size_t>(request.length);
  for (const SavedPiece& piece : tensor.pieces) {
    const std::size_t first = std::max(begin, piece.first);
    const std::size_t last = std::min(end, piece.first + piece.elements);
    if (first < last) {
      reads.push_back(
          {.file = piece.file,
           .offset = files[piece.file].header.tensors[piece.entry].begin +
                     (first - piece.first) * size,
           .bytes = (last - first) * size,
           .to = to + (first - begin) * size});
    }
  }
}

void add_aliases(
    TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  for (const auto& [alias, name] : metadata) {
    if (const auto found = tensors.find(name); found != tensors.end()) {
      tensors.try_emplace(alias, found->second);
    }
  }
}

}  // namespace

TensorMap allocate_ranges(
    const std::span<TensorFileToRead> files,
    const SavedTensors& tensors,
    const bool may_map) {
  const MemoryLayout layout(tensors);
  const auto memory = memory_for(layout.bytes);
  const std::shared_ptr<PageFiller> filler =
      may_map ? PageFiller::over(memory->data(), layout.fillable) : nullptr;
  for (TensorFileToRead& file : files) {
    file.targets.resize(file.header.tensors.size());
    if (filler) {
      fill_from_mapping(file, filler);
    }
  }
  TensorMap result;
  for (const auto& [name, tensor] : tensors) {
    std::byte* data = memory->data() + layout.offsets.at(name);
    for (const SavedPiece& piece : tensor.pieces) {
      files[piece.file].targets[piece.entry] =
          data + piece.first * c10::elementSize(tensor.dtype);
    }
    result.emplace(name, tensor_at(data, tensor.shape, tensor.dtype, memory));
  }
  return result;
}

TensorMap allocate_weights(
    const std::span<TensorFileToRead> files,
    const SavedTensors& tensors,
    const bool may_map) {
  TensorMap weights = allocate_ranges(files, tensors, may_map);
  for (const TensorFileToRead& file : files) {
    add_aliases(weights, file.header.metadata);
  }
  return weights;
}

RequestedRanges allocate_requested(
    const std::span<const TensorFileToRead> files,
    const SavedTensors& tensors,
    const std::vector<RangeRequest>& requests,
    const std::string& key) {
  const auto bytes_of_request = [](const SavedTensor& tensor,
                                   const RangeRequest& request) {
    return aligned_for_tensors(
        static_cast<std::size_t>(request.length) *
        c10::elementSize(tensor.dtype));
  };
  std::size_t bytes = 0;
  for (const RangeRequest& request : requests) {
    bytes += bytes_of_request(requested_tensor(tensors, request, key), request);
  }
  const auto memory = memory_for(bytes);
  std::byte* to = memory->data();
  RequestedRanges requested;
  for (const RangeRequest& request : requests) {
    const SavedTensor& tensor = tensors.at(request.name);
    add_reads(requested.reads, files, tensor, request, to);
    requested.ranges.push_back(
        {.name = request.name,
         .shape = tensor.shape,
         .offset = request.offset,
         .values = tensor_at(to, {request.length}, tensor.dtype, memory)});
    to += bytes_of_request(tensor, request);
  }
  return requested;
}

}  // namespace accelerate
