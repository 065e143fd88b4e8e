// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/parts.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// The minimum number of bytes per file.
constexpr std::uint64_t kMinFileBytes = std::uint64_t{8} << 20;

std::uint64_t bytes_of(const TensorMap& tensors) {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    sum += tensor.nbytes();
  }
  return sum;
}

std::string number(const int value) {
  std::ostringstream out;
  out << std::setfill('0') << std::setw(5) << value;
  return std::move(out).str();
}

// Returns the part that contains the middle of the bytes [begin, end) of
// `total`.
int part_at(
    const std::uint64_t begin,
    const std::uint64_t end,
    const std::uint64_t total,
    const int parts) {
  const std::uint64_t middle = begin + (end - begin) / 2;
  return total == 0 ? 0
                    : static_cast<int>(std::min<std::uint64_t>(
                          middle * static_cast<std::uint64_t>(parts) / total,
                          static_cast<std::uint64_t>(parts) - 1));
}

TensorMap whole_tensors(const TensorMap& all, const int part, const int parts) {
  TensorMap selected;
  const std::uint64_t total = bytes_of(all);
  std::uint64_t reached = 0;
  for (const auto& [name, tensor] : all) {
    const std::uint64_t end = reached + tensor.nbytes();
    if (part_at(reached, end, total, parts) == part) {
      selected.emplace(name, tensor);
    }
    reached = end;
  }
  return selected;
}

// Returns the range of elements of a tensor that start in part `part`. The
// tensor occupies the bytes [begin, begin + nbytes) of `total`.
std::pair<std::int64_t, std::int64_t> elements_in_part(
    const at::Tensor& tensor,
    const std::uint64_t begin,
    const std::uint64_t total,
    const int part,
    const int parts) {
  const auto edge = [&](const int index) {
    return total / static_cast<std::uint64_t>(parts) *
           static_cast<std::uint64_t>(index);
  };
  const std::uint64_t size = tensor.element_size();
  const auto first_at = [&](const std::uint64_t byte) {
    const std::uint64_t inside = byte > begin ? byte - begin : 0;
    return std::min<std::int64_t>(
        tensor.numel(), static_cast<std::int64_t>((inside + size - 1) / size));
  };
  return {
      first_at(edge(part)),
      part + 1 == parts ? tensor.numel() : first_at(edge(part + 1))};
}

RangeEntry entry_of(const TensorRange& range) {
  return {
      range.name,
      range.values.scalar_type(),
      range.shape,
      range.offset,
      range.values.numel()};
}

void add_tensor(
    RankRanges& to,
    const TensorRange& range,
    const std::int64_t first,
    const std::int64_t last) {
  if (first < last) {
    to.tensors.emplace(
        range_name(range.name, range.offset + first),
        range.values.detach().contiguous().view({-1}).slice(0, first, last));
  }
}

// Adds one of `to.writers` parts of the ranges that every rank lists.
void add_divided(
    RankRanges& to,
    std::vector<const TensorRange*> divided,
    const int rank,
    const int world_size) {
  std::ranges::sort(divided, {}, [](const TensorRange* range) {
    return std::tie(range->name, range->offset);
  });
  std::uint64_t total = 0;
  for (const TensorRange* range : divided) {
    to.divided.push_back(entry_of(*range));
    total += range->values.nbytes();
  }
  to.writers = total == 0 ? 0 : writers_for(total, world_size);
  if (rank >= to.writers) {
    return;
  }
  std::uint64_t reached = 0;
  for (const TensorRange* range : divided) {
    const auto [first, last] =
        elements_in_part(range->values, reached, total, rank, to.writers);
    add_tensor(to, *range, first, last);
    reached += range->values.nbytes();
  }
}

RankRanges ranges_of(
    const std::vector<TensorRange>& all, const int rank, const int world_size) {
  RankRanges ranges;
  std::vector<const TensorRange*> divided;
  for (const TensorRange& range : all) {
    if (range.owner == RangeOwner::every_rank) {
      divided.push_back(&range);
    } else if (range.owner == RangeOwner::this_rank || rank == 0) {
      ranges.own.push_back(entry_of(range));
      add_tensor(ranges, range, 0, range.values.numel());
    }
  }
  add_divided(ranges, std::move(divided), rank, world_size);
  return ranges;
}

Json weight_index(
    const std::string& name,
    const TensorMap& all,
    const TensorMap& main_weights,
    const int parts) {
  Json map = Json::object();
  for (int part = 0; part < parts; ++part) {
    for (const auto& [tensor, value] : whole_tensors(all, part, parts)) {
      map[tensor] = tensor_file_name(name, part, parts);
    }
  }
  for (const auto& [tensor, value] : main_weights) {
    map[tensor] = tensor_file_name(name, 0, parts);
  }
  const std::uint64_t bytes = bytes_of(all) + bytes_of(main_weights);
  return Json::object(
      {{"metadata", Json::object({{"total_size", bytes}})},
       {"weight_map", map}});
}

std::map<std::string, std::string> layout_of(const TensorMap& all) {
  std::map<std::string, std::string> layout;
  for (const auto& [name, tensor] : all) {
    layout[name] = describe_type(tensor.scalar_type(), tensor.sizes().vec());
  }
  return layout;
}

std::map<std::string, std::string> layout_of(
    const std::vector<RangeEntry>& divided) {
  std::map<std::string, std::string> layout;
  for (const RangeEntry& range : divided) {
    std::string& text = layout[range.name];
    if (text.empty()) {
      text = describe_type(range.dtype, range.shape);
    }
    if (range.length != elements_in(range.shape)) {
      text += str_cat(" ", describe_range(range.offset, range.length));
    }
  }
  return layout;
}

const TensorMap& main_weights_of(
    const CheckpointContents& contents, const std::string& name) {
  static const TensorMap none;
  const auto found = contents.main_weights.find(name);
  return found == contents.main_weights.end() ? none : found->second;
}

void add_weights(
    Part& part,
    const CheckpointContents& contents,
    const int rank,
    const int world_size) {
  for (const auto& [key, tensors] : contents.weights) {
    part.layouts[key] = layout_of(tensors);
    const int parts = writers_for(bytes_of(tensors), world_size);
    if (rank >= parts) {
      continue;
    }
    TensorFile file{
        tensor_file_name(key, rank, parts),
        whole_tensors(tensors, rank, parts)};
    if (rank == 0) {
      const TensorMap& more = main_weights_of(contents, key);
      file.tensors.insert(more.begin(), more.end());
      if (parts > 1) {
        part.documents.emplace_back(
            key + ".safetensors.index.json",
            weight_index(key, tensors, more, parts));
      }
    }
    part.tensors.push_back(std::move(file));
  }
}

void add_ranges(
    Part& part,
    const CheckpointContents& contents,
    const int rank,
    const int world_size) {
  for (const auto& [key, all] : contents.ranges) {
    if (contents.weights.contains(key)) {
      throw InternalError(str_cat(
          "`", key, "` is both a weight and a range in the checkpoint"));
    }
    RankRanges ranges = ranges_of(all, rank, world_size);
    if (!ranges.divided.empty()) {
      part.layouts[key] = layout_of(ranges.divided);
    }
    part.ranges.emplace(key, std::move(ranges));
  }
}

}  // namespace

std::uint64_t Part::bytes() const {
  std::uint64_t sum = 0;
  for (const TensorFile& file : tensors) {
    sum += bytes_of(file.tensors);
  }
  for (const auto& [key, rank_ranges] : ranges) {
    sum += bytes_of(rank_ranges.tensors);
  }
  return sum;
}

int writers_for(const std::uint64_t bytes, const int world_size) {
  return static_cast<int>(std::clamp<std::uint64_t>(
      bytes / kMinFileBytes, 1, static_cast<std::uint64_t>(world_size)));
}

std::string tensor_file_name(
    const std::string& name, const int part, const int parts) {
  return parts == 1 ? name + ".safetensors"
                    : str_cat(
                          name,
                          "-",
                          number(part + 1),
                          "-of-",
                          number(parts),
                          ".safetensors");
}

std::string rank_file_name(const int rank) {
  return str_cat("rank-", number(rank), ".safetensors");
}

std::string range_name(const std::string& tensor, const std::int64_t offset) {
  return str_cat(tensor, "@", offset);
}

std::string describe_type(
    const c10::ScalarType dtype, const std::vector<std::int64_t>& shape) {
  return str_cat(dtype, at::IntArrayRef(shape));
}

std::string describe_range(
    const std::int64_t offset, const std::int64_t length) {
  return str_cat("[", offset, ", ", offset + length, ")");
}

std::int64_t elements_in(const std::vector<std::int64_t>& shape) {
  return c10::multiply_integers(shape);
}

Part part_of(
    const CheckpointContents& contents, const int rank, const int world_size) {
  Part part;
  part.process_index = contents.process_index;
  add_weights(part, contents, rank, world_size);
  add_ranges(part, contents, rank, world_size);
  part.tensors.push_back(
      {rank_file_name(contents.process_index), contents.rank_state});
  if (rank == 0) {
    for (const auto& [name, document] : contents.documents) {
      part.documents.emplace_back(name + ".json", document);
    }
  }
  return part;
}

}  // namespace accelerate
