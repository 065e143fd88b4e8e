// SPDX-License-Identifier: Apache-2.0
#include "accelerate/operations.h"

#include <ATen/ops/cat.h>

#include "accelerate/error.h"
#include "accelerate/partial_state.h"
#include "base/str_cat.h"

namespace accelerate {

const Group& world() {
  // The group belongs to the state of the process, which outlives this handle.
  return PartialState().group();
}

namespace {

// A nest is a tensor or a nested container of tensors; see nest.h. `parts`
// contains tensor number `index` of the nest on each rank.
void check_can_concatenate(
    const std::vector<at::Tensor>& parts, std::size_t index, std::int64_t dim) {
  const at::Tensor& first = parts.front();
  if (dim < 0 || dim >= first.dim()) {
    throw ArgumentError(
        str_cat(
            "concatenate: dim is ",
            dim,
            ", but tensor ",
            index,
            " has ",
            first.dim(),
            first.dim() == 1 ? " dimension" : " dimensions"),
        "pass a dimension that every tensor has, counted from 0");
  }
  for (std::size_t nest = 1; nest < parts.size(); ++nest) {
    auto expected = first.sizes().vec();
    const bool same_dims = parts[nest].dim() == first.dim();
    if (same_dims) {
      expected[static_cast<std::size_t>(dim)] = parts[nest].size(dim);
    }
    if (!same_dims || parts[nest].sizes() != expected) {
      throw ArgumentError(
          str_cat(
              "concatenate: tensor ",
              index,
              " has shape ",
              first.sizes(),
              " in `nests[0]`, but ",
              parts[nest].sizes(),
              " in `nests[",
              nest,
              "]`; these shapes cannot be concatenated along dimension ",
              dim),
          "make all other dimensions the same size, for example by padding");
    }
  }
}

}  // namespace

namespace detail {

std::vector<at::Tensor> to_device(
    const std::vector<at::Tensor>& tensors,
    c10::Device device,
    bool non_blocking) {
  std::vector<at::Tensor> moved;
  for (const at::Tensor& tensor : tensors) {
    moved.push_back(
        tensor.defined() ? tensor.to(device, tensor.scalar_type(), non_blocking)
                         : tensor);
  }
  return moved;
}

std::vector<at::Tensor> slice(
    const std::vector<at::Tensor>& tensors,
    std::int64_t begin,
    std::int64_t end) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) {
    const std::int64_t rows =
        tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
    if (begin < 0 || end < begin || end > rows) {
      throw ArgumentError(
          str_cat(
              "slice_tensors: rows ",
              begin,
              " to ",
              end,
              " are out of range for a tensor with ",
              rows,
              rows == 1 ? " row" : " rows"),
          "pass 0 ≤ begin ≤ end ≤ rows");
    }
    parts.push_back(tensor.narrow(0, begin, end - begin));
  }
  return parts;
}

std::vector<at::Tensor> concatenate(
    const std::vector<std::vector<at::Tensor>>& lists, std::int64_t dim) {
  if (lists.empty()) {
    throw ArgumentError(
        "concatenate got no tensors", "pass at least one nest of tensors");
  }
  for (const auto& list : lists) {
    if (list.size() != lists.front().size()) {
      throw ArgumentError(
          str_cat(
              "concatenate: the nests have ",
              lists.front().size(),
              " and ",
              list.size(),
              " tensors"),
          "pass nested containers of tensors with the same structure");
    }
  }
  std::vector<at::Tensor> joined;
  for (std::size_t i = 0; i < lists.front().size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const auto& list : lists) {
      parts.push_back(list[i]);
    }
    check_can_concatenate(parts, i, dim);
    joined.push_back(at::cat(parts, dim));
  }
  return joined;
}

std::vector<at::Tensor> to_fp32(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> converted;
  for (const at::Tensor& tensor : tensors) {
    const bool narrow =
        tensor.defined() && (tensor.scalar_type() == at::kHalf ||
                             tensor.scalar_type() == at::kBFloat16);
    converted.push_back(narrow ? tensor.to(at::kFloat) : tensor);
  }
  return converted;
}

}  // namespace detail
}  // namespace accelerate
