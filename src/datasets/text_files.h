// SPDX-License-Identifier: Apache-2.0
// Memory-mapped text files and the offsets of their rows.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "datasets/table.h"

namespace transformers::datasets {

/// Text files and the offsets of their rows.
class TextFiles {
 public:
  /// Maps the files into memory. Throws `IoError` for a file that cannot be
  /// read, and `FormatError` for a file that is not UTF-8.
  explicit TextFiles(const Paths& paths);

  std::size_t count() const { return files_.size(); }
  std::string_view text(std::size_t file) const { return files_[file].text(); }
  std::string source(std::size_t file) const { return paths_[file].string(); }

  /// Adds the next row, which begins at `offset` in `file`. The caller must add
  /// the rows in order, one file after the other.
  void add_row(std::size_t file, std::size_t offset);
  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }

  struct RowLocation {
    std::size_t file = 0;
    std::size_t offset = 0;
  };
  RowLocation location(std::int64_t row) const;

  /// Returns a digest of the files' bytes and of `format`, which describes how
  /// the files are read.
  std::string fingerprint(const std::string& format) const;

 private:
  Paths paths_;
  std::vector<accelerate::MappedFile> files_;
  std::vector<std::uint64_t> rows_;
  // The index of the first row of each file.
  std::vector<std::int64_t> first_row_;
  mutable std::once_flag hashed_;
  mutable std::string hash_;
};

}  // namespace transformers::datasets
