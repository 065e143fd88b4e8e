// SPDX-License-Identifier: Apache-2.0
// Several mapped files of text with a row at known places.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "transformers/datasets/table.h"

namespace transformers::datasets {

/// Files and where their rows begin.
class TextFiles {
 public:
  /// Throws `IoError` for a file that cannot be read, `FormatError` for one
  /// that is not UTF-8.
  explicit TextFiles(const Paths& paths);

  std::size_t count() const { return files_.size(); }
  std::string_view text(std::size_t file) const { return files_[file].text(); }
  std::string source(std::size_t file) const { return paths_[file].string(); }

  /// Says that the next row begins there; files in their order.
  void add_row(std::size_t file, std::size_t offset);
  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }

  struct Place {
    std::size_t file = 0;
    std::size_t offset = 0;
  };
  Place place(std::int64_t row) const;

  /// A digest of the files' bytes and of `how` they are read.
  std::string fingerprint(const std::string& how) const;

 private:
  Paths paths_;
  std::vector<accelerate::MappedFile> files_;
  std::vector<std::uint64_t> rows_;
  std::vector<std::int64_t> first_row_;  // Of each file so far.
  mutable std::once_flag hashed_;
  mutable std::string hash_;
};

}  // namespace transformers::datasets
