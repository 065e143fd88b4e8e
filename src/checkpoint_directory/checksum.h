// SPDX-License-Identifier: Apache-2.0
// XXH3 checksums of files and of byte streams.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace accelerate {

/// Computes the checksum of bytes that arrive in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void add(std::string_view bytes);
  /// Returns the checksum of all bytes so far, as 16 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_of(std::string_view bytes);

/// The length and checksum of a file, as a manifest lists them.
struct FileChecksum {
  std::uint64_t bytes = 0;
  std::string xxh3;

  bool operator==(const FileChecksum&) const = default;
};

/// Reads a regular file and returns its length and checksum. Throws `IoError`
/// for a symbolic link, so that a file outside a checkpoint cannot pass as a
/// file of the checkpoint.
FileChecksum checksum_file(const std::filesystem::path& path);

}  // namespace accelerate
