// SPDX-License-Identifier: Apache-2.0
#include "datasets/text_files.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/utf8.h"
#include "datasets/csv_reader.h"

namespace transformers::datasets {

TextFiles::TextFiles(const Paths& paths) : paths_(paths) {
  if (paths.empty()) {
    throw accelerate::ArgumentError(
        "`load_dataset` got no files", "pass at least one file");
  }
  files_.reserve(paths.size());
  for (const auto& path : paths) {
    files_.emplace_back(path, accelerate::MappedFile::Mode::read_only);
    const std::string_view text = files_.back().text();
    if (const auto bad = accelerate::find_invalid_utf8(text);
        bad != std::string_view::npos) {
      fail_at(
          path.string(),
          text,
          bad,
          accelerate::str_cat("byte ", bad, " of the file is not UTF-8"));
    }
  }
}

void TextFiles::add_row(std::size_t file, std::size_t offset) {
  first_row_.resize(std::max(first_row_.size(), file + 1), rows());
  rows_.push_back(offset);
}

TextFiles::RowLocation TextFiles::location(std::int64_t row) const {
  const auto after =
      std::upper_bound(first_row_.begin(), first_row_.end(), row);
  return {
      static_cast<std::size_t>(after - first_row_.begin()) - 1,
      rows_[static_cast<std::size_t>(row)]};
}

std::string TextFiles::fingerprint(const std::string& format) const {
  std::call_once(hashed_, [&] {
    std::string digests;
    for (const accelerate::MappedFile& file : files_) {
      digests += accelerate::sha256_hex(file.text());
    }
    hash_ = std::move(digests);
  });
  return accelerate::sha256_hex(hash_ + format);
}

}  // namespace transformers::datasets
