// SPDX-License-Identifier: Apache-2.0
// The front of a safetensors file: which tensors it holds, and where.
//
// A file is a little-endian length of 8 bytes, that many bytes of JSON, and
// the tensors' bytes one after the other.
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
  std::string dtype;  ///< As the format has it: "F32".
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< In the file, not in its data.
  std::uint64_t end = 0;

  std::int64_t elements() const;
};

struct SafetensorsHeader {
  /// In the order of their bytes, which follow each other without a gap.
  std::vector<SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

/// Longer headers are refused, as the format's own library does.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// How many bits an element of that type has, or nothing when the format has
/// no such type.
std::optional<int> safetensors_bits(std::string_view dtype);

/// Returns the length of the JSON. `start` is the file's first 8 bytes, fewer
/// when it is shorter. Throws `FormatError` when that cannot be.
std::uint64_t safetensors_header_length(
    std::string_view start, std::uint64_t file_size, const std::string& path);

/// Parses the JSON of a file of `file_size` bytes and checks all it says.
/// Throws `FormatError` naming `path` and the byte.
SafetensorsHeader parse_safetensors_header(
    std::string_view json, std::uint64_t file_size, const std::string& path);

/// Reads no more of the file than its header.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

}  // namespace accelerate
