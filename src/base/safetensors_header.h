// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: names, types, shapes and offsets of its
// tensors.
//
// A file consists of an 8-byte little-endian length, a JSON header of this
// length in bytes, and the bytes of the tensors without gaps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< In the format's notation: "F32".
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< Byte offset of the tensor in the file.
  std::uint64_t end = 0;    ///< Offset of the first byte after the tensor.

  std::int64_t elements() const;
};

struct SafetensorsHeader {
  /// Sorted by offset, without gaps between tensors.
  std::vector<SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

/// The maximum length of a header in bytes, as in the safetensors library.
/// Longer headers are rejected.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Returns the bits per element of a dtype, or nothing if the format does not
/// define that dtype.
std::optional<int> safetensors_bits(std::string_view dtype);

/// Returns the length of the JSON header. `start` is the first 8 bytes of the
/// file, or the whole file if it is shorter. Throws `FormatError` when the
/// length is invalid.
std::uint64_t safetensors_header_length(
    std::string_view start, std::uint64_t file_size, const std::string& path);

/// Parses and validates the JSON header of a file with `file_size` bytes.
/// Throws a `FormatError` that names `path` and the byte offset of the error.
SafetensorsHeader parse_safetensors_header(
    std::string_view json, std::uint64_t file_size, const std::string& path);

/// Reads and parses only the header of the file, not the tensors.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

}  // namespace accelerate
