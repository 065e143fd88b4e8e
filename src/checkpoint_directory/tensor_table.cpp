// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/tensor_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "checkpoint_directory/plain_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Throws for a symbolic link, as loading a checkpoint does.
MappedFile map_plain_file(const fs::path& path) {
  const UniqueFd fd = open_plain_file(path);
  return {fd.get(), path, MappedFile::Mode::read_only};
}

SafetensorsHeader header_of(const fs::path& path) {
  const MappedFile file = map_plain_file(path);
  constexpr std::size_t kLength = 8;
  const auto length = static_cast<std::size_t>(safetensors_header_length(
      file.text().substr(0, kLength), file.size(), path.string()));
  return parse_safetensors_header(
      file.text().substr(kLength, length), file.size(), path.string());
}

float half_to_float(const std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half >> 15) << 31;
  const std::uint32_t exponent = half >> 10 & 0x1F;
  const std::uint32_t fraction = half & 0x3FF;
  if (exponent == 0) {
    const float small = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -small : small;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <typename Value>
Value read_as(const std::byte* at) {
  Value value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Element `index` as a number; empty for types that are not compared as
/// numbers.
std::optional<double> number_at(
    const std::string& dtype, const std::byte* data, const std::size_t index) {
  if (dtype == "F64") {
    return read_as<double>(data + 8 * index);
  }
  if (dtype == "F32") {
    return read_as<float>(data + 4 * index);
  }
  if (dtype == "F16") {
    return half_to_float(read_as<std::uint16_t>(data + 2 * index));
  }
  if (dtype == "BF16") {
    return std::bit_cast<float>(
        static_cast<std::uint32_t>(read_as<std::uint16_t>(data + 2 * index))
        << 16);
  }
  if (dtype == "I64") {
    return static_cast<double>(read_as<std::int64_t>(data + 8 * index));
  }
  if (dtype == "I32") {
    return read_as<std::int32_t>(data + 4 * index);
  }
  return std::nullopt;
}

std::string dtype_and_shape(const SafetensorsEntry& entry) {
  std::string text = entry.dtype + "[";
  for (std::size_t i = 0; i < entry.shape.size(); ++i) {
    text += str_cat(i == 0 ? "" : ", ", entry.shape[i]);
  }
  return text + "]";
}

// Returns the key that a file belongs to, such as `optimizer` for all files of
// an optimizer.
std::string kind_of(const std::string& file) {
  const std::string stem = file.substr(0, file.rfind(".safetensors"));
  const auto part = stem.find("-0");
  return stem.find("-of-") != stem.npos ? stem.substr(0, part) : stem;
}

/// The offsets at which the ranges of each flat tensor begin and end.
using Cuts = std::map<std::string, std::set<std::int64_t>>;

/// Splits the name of a range into `optimizer: head.weight.exp_avg` and 4096;
/// empty for other tensors.
std::optional<std::pair<std::string, std::int64_t>> range_of(
    const std::string& name) {
  const auto at = name.rfind('@');
  if (at == name.npos || at + 1 == name.size() || name.size() - at > 19 ||
      name.find_first_not_of("0123456789", at + 1) != name.npos) {
    return std::nullopt;
  }
  return std::pair(name.substr(0, at), std::stoll(name.substr(at + 1)));
}

/// The files of one checkpoint, open for comparison.
class CheckpointTensors {
 public:
  explicit CheckpointTensors(const fs::path& folder) : folder_(folder) {
    for (const auto& location :
         tensors_of_checkpoint(folder, read_manifest(folder))) {
      locations_[str_cat(kind_of(location.file), ": ", location.entry.name)] =
          location;
    }
  }

  void add_cuts(Cuts& cuts) const {
    for (const auto& [name, location] : locations_) {
      if (const auto range = range_of(name)) {
        cuts[range->first].insert(range->second);
        cuts[range->first].insert(range->second + location.entry.elements());
      }
    }
  }

  /// Splits ranges at `cuts`, so that checkpoints saved by different numbers of
  /// processes, which wrote different ranges, can be compared.
  void cut(const Cuts& cuts) {
    std::map<std::string, TensorLocation> pieces;
    for (const auto& [name, location] : locations_) {
      const auto range = range_of(name);
      if (!range || location.entry.elements() == 0) {
        pieces[name] = location;
        continue;
      }
      const std::set<std::int64_t>& all = cuts.at(range->first);
      const std::int64_t end = range->second + location.entry.elements();
      for (auto at = all.find(range->second); *at < end; ++at) {
        pieces[str_cat(range->first, "@", *at)] = piece_of(
            location, *at - range->second, *std::next(at) - range->second);
      }
    }
    locations_ = std::move(pieces);
  }

  const std::map<std::string, TensorLocation>& locations() const {
    return locations_;
  }

  const std::byte* bytes_of(const TensorLocation& location) {
    auto& file = files_[location.file];
    if (!file) {
      file =
          std::make_unique<MappedFile>(map_plain_file(folder_ / location.file));
    }
    return file->data() + location.entry.begin;
  }

 private:
  static TensorLocation piece_of(
      const TensorLocation& range, std::int64_t first, std::int64_t last) {
    const auto elements = static_cast<std::uint64_t>(range.entry.elements());
    const auto size = (range.entry.end - range.entry.begin) / elements;
    TensorLocation piece = range;
    piece.entry.begin += static_cast<std::uint64_t>(first) * size;
    piece.entry.end =
        range.entry.begin + static_cast<std::uint64_t>(last) * size;
    piece.entry.shape = {last - first};
    return piece;
  }

  fs::path folder_;
  std::map<std::string, TensorLocation> locations_;
  std::map<std::string, std::unique_ptr<MappedFile>> files_;
};

std::optional<std::string> difference(
    CheckpointTensors& first,
    const TensorLocation& left,
    CheckpointTensors& second,
    const TensorLocation& right) {
  if (dtype_and_shape(left.entry) != dtype_and_shape(right.entry)) {
    return str_cat(
        dtype_and_shape(left.entry), " and ", dtype_and_shape(right.entry));
  }
  const std::byte* a = first.bytes_of(left);
  const std::byte* b = second.bytes_of(right);
  const std::size_t bytes = left.entry.end - left.entry.begin;
  if (std::memcmp(a, b, bytes) == 0) {
    return std::nullopt;
  }
  std::size_t differing = 0;
  double largest = 0;
  const auto elements = static_cast<std::size_t>(left.entry.elements());
  for (std::size_t i = 0; i < elements; ++i) {
    const auto x = number_at(left.entry.dtype, a, i);
    if (!x) {
      return str_cat(dtype_and_shape(left.entry), " differs");
    }
    const auto y = number_at(left.entry.dtype, b, i);
    differing += *x != *y ? 1 : 0;
    largest = std::max(largest, std::abs(*x - *y));
  }
  return str_cat(
      differing, " of ", elements, " values differ, by at most ", largest);
}

}  // namespace

std::vector<TensorLocation> tensors_of_checkpoint(
    const fs::path& folder, const Manifest& manifest) {
  std::vector<TensorLocation> locations;
  for (const auto& [name, sum] : manifest.files) {
    if (!name.ends_with(".safetensors")) {
      continue;
    }
    for (auto& entry : header_of(folder / name).tensors) {
      locations.push_back({name, std::move(entry)});
    }
  }
  return locations;
}

std::vector<TensorDifference> compare_checkpoints(
    const fs::path& first_folder, const fs::path& second_folder) {
  CheckpointTensors first(first_folder);
  CheckpointTensors second(second_folder);
  Cuts cuts;
  first.add_cuts(cuts);
  second.add_cuts(cuts);
  first.cut(cuts);
  second.cut(cuts);
  std::vector<TensorDifference> differences;
  for (const auto& [name, location] : first.locations()) {
    const auto found = second.locations().find(name);
    if (found == second.locations().end()) {
      differences.push_back({name, "only in the first"});
    } else if (
        auto description = difference(first, location, second, found->second)) {
      differences.push_back({name, *description});
    }
  }
  for (const auto& [name, location] : second.locations()) {
    if (!first.locations().contains(name)) {
      differences.push_back({name, "only in the second"});
    }
  }
  return differences;
}

}  // namespace accelerate
