// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/parts.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include <ATen/core/Tensor.h>

#include "base/str_cat.h"
#include "checkpoint_directory/checksum.h"
#include "tensor_io/safetensors_dtype.h"

namespace accelerate {
namespace {

// Enough bytes to be worth another file.
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

// The part that holds the middle of bytes [begin, end) of `total`.
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

// The elements of a tensor that fall into part `part`, where the tensor
// occupies bytes [begin, begin + nbytes) of `total`: from the first element
// that starts in the part to the last.
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

TensorMap ranges(const TensorMap& all, const int part, const int parts) {
  TensorMap selected;
  const std::uint64_t total = bytes_of(all);
  std::uint64_t reached = 0;
  for (const auto& [name, tensor] : all) {
    const auto [first, last] =
        elements_in_part(tensor, reached, total, part, parts);
    if (first < last) {
      selected.emplace(
          range_name(name, first),
          tensor.detach().contiguous().view({-1}).slice(0, first, last));
    }
    reached += tensor.nbytes();
  }
  return selected;
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

// The shapes, which flat ranges do not contain.
Json shapes_of(const TensorMap& all) {
  Json shapes = Json::object();
  for (const auto& [name, tensor] : all) {
    shapes[name] = Json::object(
        {{"dtype", safetensors_name(tensor.scalar_type()).value_or("?")},
         {"shape", tensor.sizes().vec()}});
  }
  return shapes;
}

// A digest of names, types and shapes, which determine who writes what.
std::string layout_of(const TensorMap& all) {
  std::string text;
  for (const auto& [name, tensor] : all) {
    text += str_cat(name, " ", c10::toString(tensor.scalar_type()));
    for (const std::int64_t size : tensor.sizes()) {
      text += str_cat(" ", size);
    }
    text += "\n";
  }
  return str_cat(
      all.size(),
      all.size() == 1 ? " tensor" : " tensors",
      " (layout checksum ",
      checksum_of(text),
      ")");
}

void add_tensors(
    Part& part,
    const std::string& name,
    const TensorMap& all,
    const int rank,
    const int world_size,
    TensorMap (*choose)(const TensorMap&, int, int)) {
  const int parts = writers_for(bytes_of(all), world_size);
  part.layouts[name] = layout_of(all);
  if (rank < parts) {
    part.tensors.push_back(
        {tensor_file_name(name, rank, parts), choose(all, rank, parts)});
  }
}

const TensorMap& main_weights_of(
    const CheckpointContents& contents, const std::string& name) {
  static const TensorMap none;
  const auto found = contents.main_weights.find(name);
  return found == contents.main_weights.end() ? none : found->second;
}

}  // namespace

void CheckpointContents::write_from_main_rank() {
  for (auto& [name, tensors] : weights) {
    main_weights[name].merge(tensors);
    tensors.clear();
  }
  divides_ranges = false;
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

Part part_of(
    const CheckpointContents& contents, const int rank, const int world_size) {
  Part part;
  for (const auto& [name, tensors] : contents.weights) {
    add_tensors(part, name, tensors, rank, world_size, whole_tensors);
    if (rank == 0) {
      const TensorMap& more = main_weights_of(contents, name);
      part.tensors.back().tensors.insert(more.begin(), more.end());
    }
  }
  for (const auto& [name, tensors] : contents.ranges) {
    if (contents.divides_ranges) {
      add_tensors(part, name, tensors, rank, world_size, ranges);
    } else if (rank == 0) {
      add_tensors(part, name, tensors, rank, 1, ranges);
      part.layouts.erase(name);
    }
  }
  part.tensors.push_back(
      {rank_file_name(contents.process_index), contents.rank_state});
  if (rank != 0) {
    return part;
  }
  for (const auto& [name, tensors] : contents.weights) {
    const int parts = writers_for(bytes_of(tensors), world_size);
    if (parts > 1) {
      part.documents.emplace_back(
          name + ".safetensors.index.json",
          weight_index(name, tensors, main_weights_of(contents, name), parts));
    }
  }
  for (const auto& [name, tensors] : contents.ranges) {
    part.documents.emplace_back(name + ".shapes.json", shapes_of(tensors));
  }
  for (const auto& [name, document] : contents.documents) {
    part.documents.emplace_back(name + ".json", document);
  }
  return part;
}

}  // namespace accelerate
