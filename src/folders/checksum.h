// SPDX-License-Identifier: Apache-2.0
// XXH3 of files and of bytes on their way into one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace accelerate {

/// A checksum of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void add(std::string_view bytes);
  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_of(std::string_view bytes);

/// A file with its length and checksum, as a manifest lists it.
struct FileSum {
  std::uint64_t bytes = 0;
  std::string xxh3;

  bool operator==(const FileSum&) const = default;
};

/// Reads a plain file; a link to one is an `IoError`, so that nothing outside
/// a folder can stand for a part of it.
FileSum sum_of_file(const std::filesystem::path& path);

}  // namespace accelerate
