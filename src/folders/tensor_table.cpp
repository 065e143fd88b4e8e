// SPDX-License-Identifier: Apache-2.0
#include "folders/tensor_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

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

/// Element `index` as a number; nothing for types that are no numbers here.
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

std::string form_of(const SafetensorsEntry& entry) {
  std::string text = entry.dtype + "[";
  for (std::size_t i = 0; i < entry.shape.size(); ++i) {
    text += str_cat(i == 0 ? "" : ", ", entry.shape[i]);
  }
  return text + "]";
}

// Which state a file belongs to: `optimizer` for all its parts.
std::string kind_of(const std::string& file) {
  const std::string stem = file.substr(0, file.rfind(".safetensors"));
  const auto part = stem.find("-0");
  return stem.find("-of-") != stem.npos ? stem.substr(0, part) : stem;
}

/// The files of one checkpoint, open for comparison.
class Content {
 public:
  explicit Content(const fs::path& folder) : folder_(folder) {
    for (const auto& place :
         tensors_of_checkpoint(folder, read_manifest(folder))) {
      places_[str_cat(kind_of(place.file), ": ", place.entry.name)] = place;
    }
  }

  const std::map<std::string, TensorPlace>& places() const { return places_; }

  const std::byte* bytes_of(const TensorPlace& place) {
    auto& file = files_[place.file];
    if (!file) {
      file = std::make_unique<MappedFile>(folder_ / place.file);
    }
    return file->data() + place.entry.begin;
  }

 private:
  fs::path folder_;
  std::map<std::string, TensorPlace> places_;
  std::map<std::string, std::unique_ptr<MappedFile>> files_;
};

std::optional<std::string> difference(
    Content& first,
    const TensorPlace& left,
    Content& second,
    const TensorPlace& right) {
  if (form_of(left.entry) != form_of(right.entry)) {
    return str_cat(form_of(left.entry), " and ", form_of(right.entry));
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
      return str_cat(form_of(left.entry), " differs");
    }
    const auto y = number_at(left.entry.dtype, b, i);
    differing += *x != *y ? 1 : 0;
    largest = std::max(largest, std::abs(*x - *y));
  }
  return str_cat(
      differing, " of ", elements, " values differ, by at most ", largest);
}

}  // namespace

std::vector<TensorPlace> tensors_of_checkpoint(
    const fs::path& folder, const Manifest& manifest) {
  std::vector<TensorPlace> places;
  for (const auto& [name, sum] : manifest.files) {
    if (!name.ends_with(".safetensors")) {
      continue;
    }
    for (auto& entry : read_safetensors_header(folder / name).tensors) {
      places.push_back({name, std::move(entry)});
    }
  }
  return places;
}

std::vector<TensorDifference> compare_checkpoints(
    const fs::path& first_folder, const fs::path& second_folder) {
  Content first(first_folder);
  Content second(second_folder);
  std::vector<TensorDifference> differences;
  for (const auto& [name, place] : first.places()) {
    const auto found = second.places().find(name);
    if (found == second.places().end()) {
      differences.push_back({name, "only in the first"});
    } else if (auto what = difference(first, place, second, found->second)) {
      differences.push_back({name, *what});
    }
  }
  for (const auto& [name, place] : second.places()) {
    if (!first.places().contains(name)) {
      differences.push_back({name, "only in the second"});
    }
  }
  return differences;
}

}  // namespace accelerate
