// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/assign_ranges.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tensor_io/safetensors_dtype.h"

namespace accelerate {
namespace {

// Keys in the JSON that `range_table` returns.
constexpr const char* kProcess = "process";
constexpr const char* kRanges = "ranges";

Json entry_to_json(const RangeEntry& entry) {
  return Json::array(
      {entry.name,
       static_cast<int>(entry.dtype),
       entry.shape,
       entry.offset,
       entry.length});
}

RangeEntry entry_from_json(const Json& json) {
  RangeEntry entry;
  entry.name = json.at(0).as_string();
  entry.dtype = static_cast<c10::ScalarType>(json.at(1).as_integer());
  for (const Json& size : json.at(2).as_array()) {
    entry.shape.push_back(size.as_integer());
  }
  entry.offset = json.at(3).as_integer();
  entry.length = json.at(4).as_integer();
  return entry;
}

/// Elements of a tensor and the ranks that list them.
struct ListedRange {
  std::int64_t offset = 0;
  std::int64_t length = 0;
  /// Sorted; empty if every rank lists the range.
  std::vector<int> ranks;

  std::int64_t end() const { return offset + length; }
};

/// A tensor and its ranges on all ranks.
struct ListedTensor {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<std::int64_t> shape;
  /// A rank that lists the tensor; empty if every rank lists it.
  std::optional<int> rank;
  /// Without ranges of length 0.
  std::vector<ListedRange> ranges;
};

/// The ranges of one key on all ranks.
class KeyRanges {
 public:
  KeyRanges(std::string key, const std::vector<Json>& tables)
      : key_(std::move(key)) {
    for (const Json& table : tables) {
      processes_.push_back(table.at(kProcess).as_integer());
    }
  }

  /// Adds a range of one rank, or of every rank if `rank` is empty.
  void add(const RangeEntry& entry, const std::optional<int> rank) {
    ListedTensor& tensor =
        tensors_
            .try_emplace(
                entry.name, ListedTensor{entry.dtype, entry.shape, rank, {}})
            .first->second;
    check_type(tensor, entry, rank);
    if (entry.offset < 0 ||
        entry.offset + entry.length > elements_in(entry.shape)) {
      refuse(
          str_cat(
              name_of(rank),
              " has elements ",
              describe_range(entry.offset, entry.length)),
          entry.name,
          str_cat(
              ", but the tensor is ",
              describe_type(entry.dtype, entry.shape),
              ", which has only elements ",
              describe_range(0, elements_in(entry.shape))));
    }
    if (entry.length > 0) {
      tensor.ranges.push_back({entry.offset, entry.length, {}});
      if (rank) {
        tensor.ranges.back().ranks.push_back(*rank);
      }
    }
  }

  /// Merges equal ranges. Throws unless the ranges cover each tensor.
  void check() {
    for (auto& [name, tensor] : tensors_) {
      std::ranges::sort(tensor.ranges, {}, [](const ListedRange& range) {
        return std::tie(range.offset, range.length, range.ranks);
      });
      std::vector<ListedRange> merged;
      for (ListedRange& range : tensor.ranges) {
        if (!merged.empty() && is_copy(merged.back(), range)) {
          merged.back().ranks.push_back(range.ranks.front());
        } else {
          check_next(name, merged, range);
          merged.push_back(std::move(range));
        }
      }
      tensor.ranges = std::move(merged);
      check_end(name, tensor);
    }
  }

  const std::map<std::string, ListedTensor>& tensors() const {
    return tensors_;
  }

 private:
  // Whether another rank lists the same range.
  static bool is_copy(const ListedRange& left, const ListedRange& right) {
    return left.offset == right.offset && left.length == right.length &&
           !left.ranks.empty() && !right.ranks.empty() &&
           left.ranks.back() != right.ranks.front();
  }

  std::string name_of(const std::optional<int> rank) const {
    return rank ? str_cat("rank ", processes_[static_cast<std::size_t>(*rank)])
                : "every rank";
  }

  std::string description(const ListedRange& range) const {
    return str_cat(
        name_of(
            range.ranks.empty() ? std::nullopt
                                : std::optional(range.ranks.front())),
        " has elements ",
        describe_range(range.offset, range.length));
  }

  [[noreturn]] void refuse(
      const std::string& before,
      const std::string& name,
      const std::string& after) const {
    throw StateError(
        str_cat(before, " of tensor `", name, "` in `", key_, "`", after),
        "make the ranges of all ranks cover each tensor exactly once; with "
        "`save_on_each_node`, the ranges of each node's ranks must do so");
  }

  void check_type(
      const ListedTensor& tensor,
      const RangeEntry& entry,
      const std::optional<int> rank) const {
    if (tensor.dtype != entry.dtype || tensor.shape != entry.shape) {
      throw StateError(
          str_cat(
              "tensor `",
              entry.name,
              "` in `",
              key_,
              "` is ",
              describe_type(tensor.dtype, tensor.shape),
              " on ",
              name_of(tensor.rank),
              ", but ",
              describe_type(entry.dtype, entry.shape),
              " on ",
              name_of(rank)),
          "prepare the same models and optimizers with the same trainable "
          "parameters on every process");
    }
  }

  void check_next(
      const std::string& name,
      const std::vector<ListedRange>& before,
      const ListedRange& range) const {
    const std::int64_t reached = before.empty() ? 0 : before.back().end();
    if (range.offset < reached) {
      refuse(
          description(before.back()),
          name,
          str_cat(
              ", and ",
              description(range),
              ": ranges must not overlap, unless different ranks list the "
              "same range"));
    }
    if (range.offset > reached) {
      refuse_gap(
          name,
          {.offset = reached, .length = range.offset - reached, .ranks = {}},
          before,
          &range);
    }
  }

  void check_end(const std::string& name, const ListedTensor& tensor) const {
    const std::int64_t reached =
        tensor.ranges.empty() ? 0 : tensor.ranges.back().end();
    const std::int64_t missing = elements_in(tensor.shape) - reached;
    if (missing > 0) {
      refuse_gap(
          name,
          {.offset = reached, .length = missing, .ranks = {}},
          tensor.ranges,
          nullptr);
    }
  }

  [[noreturn]] void refuse_gap(
      const std::string& name,
      const ListedRange& gap,
      const std::vector<ListedRange>& before,
      const ListedRange* after) const {
    std::string neighbors;
    if (!before.empty()) {
      neighbors += str_cat(": ", description(before.back()));
    }
    if (after != nullptr) {
      neighbors +=
          str_cat(neighbors.empty() ? ": " : ", ", description(*after));
    }
    refuse(
        str_cat(
            "no rank has elements ", describe_range(gap.offset, gap.length)),
        name,
        neighbors);
  }

  std::string key_;
  /// The rank in the whole run of each rank that writes the checkpoint.
  std::vector<std::int64_t> processes_;
  std::map<std::string, ListedTensor> tensors_;
};

/// Which ranks write the files of a key.
struct Writers {
  std::set<int> ranks;
  /// The writer of each range that only some ranks list, by `range_name`.
  std::map<std::string, int> of_range;
};

Writers choose_writers(
    const std::map<std::string, ListedTensor>& tensors,
    const int divided_writers,
    const std::size_t world_size) {
  Writers writers;
  for (int rank = 0; rank < divided_writers; ++rank) {
    writers.ranks.insert(rank);
  }
  std::vector<std::uint64_t> bytes(world_size);
  for (const auto& [name, tensor] : tensors) {
    for (const ListedRange& range : tensor.ranges) {
      if (range.ranks.empty()) {
        continue;  // All writers get equal parts of these ranges.
      }
      const int writer =
          *std::ranges::min_element(range.ranks, {}, [&](const int rank) {
            return bytes[static_cast<std::size_t>(rank)];
          });
      bytes[static_cast<std::size_t>(writer)] +=
          static_cast<std::uint64_t>(range.length) *
          c10::elementSize(tensor.dtype);
      writers.ranks.insert(writer);
      writers.of_range[range_name(name, range.offset)] = writer;
    }
  }
  if (writers.ranks.empty()) {
    writers.ranks.insert(0);
  }
  return writers;
}

// Returns the shapes of the tensors, because the ranges are flat.
Json shapes_of(const std::map<std::string, ListedTensor>& tensors) {
  Json shapes = Json::object();
  for (const auto& [name, tensor] : tensors) {
    shapes[name] = Json::object(
        {{"dtype", safetensors_name(tensor.dtype).value_or("?")},
         {"shape", tensor.shape}});
  }
  return shapes;
}

// Copies tensors that share memory. A safetensors file stores such tensors
// once, under a single name, but the reader of ranges needs all names.
void unshare_memory(TensorMap& tensors) {
  std::set<const void*> seen;
  for (auto& [name, tensor] : tensors) {
    if (!seen.insert(tensor.const_data_ptr()).second) {
      tensor = tensor.clone();
    }
  }
}

void assign_key(
    Part& part,
    const std::string& key,
    const std::vector<Json>& tables,
    const int rank) {
  RankRanges& here = part.ranges[key];
  KeyRanges all(key, tables);
  for (const RangeEntry& entry : here.divided) {
    all.add(entry, std::nullopt);
  }
  for (std::size_t other = 0; other < tables.size(); ++other) {
    if (const Json* entries = tables[other].at(kRanges).find(key)) {
      for (const Json& entry : entries->as_array()) {
        all.add(entry_from_json(entry), static_cast<int>(other));
      }
    }
  }
  all.check();
  const Writers writers =
      choose_writers(all.tensors(), here.writers, tables.size());
  if (const auto found = writers.ranks.find(rank);
      found != writers.ranks.end()) {
    std::erase_if(here.tensors, [&](const auto& named) {
      const auto writer = writers.of_range.find(named.first);
      return writer != writers.of_range.end() && writer->second != rank;
    });
    unshare_memory(here.tensors);
    const auto index = std::distance(writers.ranks.begin(), found);
    part.tensors.push_back(
        {tensor_file_name(
             key,
             static_cast<int>(index),
             static_cast<int>(writers.ranks.size())),
         std::move(here.tensors)});
  }
  if (rank == 0) {
    part.documents.emplace_back(key + ".shapes.json", shapes_of(all.tensors()));
  }
}

}  // namespace

Json range_table(const Part& part) {
  Json ranges = Json::object();
  for (const auto& [key, rank_ranges] : part.ranges) {
    Json& entries = ranges[key];
    entries = Json::array();
    for (const RangeEntry& entry : rank_ranges.own) {
      entries.push_back(entry_to_json(entry));
    }
  }
  return Json::object({{kProcess, part.process_index}, {kRanges, ranges}});
}

Part assign_ranges(Part part, const std::vector<Json>& tables, const int rank) {
  std::set<std::string> keys;
  for (const Json& table : tables) {
    for (const auto& [key, entries] : table.at(kRanges).as_object()) {
      keys.insert(key);
    }
  }
  for (const std::string& key : keys) {
    assign_key(part, key, tables, rank);
  }
  part.ranges.clear();
  return part;
}

}  // namespace accelerate
