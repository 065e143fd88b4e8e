// SPDX-License-Identifier: Apache-2.0
#include "transformers/datasets/csv_reader.h"

#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::datasets {

using accelerate::str_cat;

std::string CsvCell::text() const {
  return doubled_quotes
             ? accelerate::replace_all(std::string(raw), "\"\"", "\"")
             : std::string(raw);
}

void fail_at(
    const std::string& source,
    std::string_view text,
    std::size_t offset,
    const std::string& message) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? offset + 1 : offset - newline;
  throw accelerate::FormatError(
      str_cat(source, ":", line, ":", column, ": ", message));
}

CsvReader::CsvReader(
    std::string_view text, const CsvFormat& format, std::string source)
    : text_(text), format_(format), source_(std::move(source)) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text_.starts_with(kByteOrderMark)) {
    position_ = kByteOrderMark.size();
  }
}

void CsvReader::seek(std::size_t offset) {
  position_ = offset;
}

void CsvReader::fail(std::size_t offset, const std::string& message) const {
  fail_at(source_, text_, offset, message);
}

bool CsvReader::next() {
  while (position_ < text_.size() && at_line_end()) {
    skip_line_end();
  }
  if (position_ >= text_.size()) {
    return false;
  }
  record_ = position_;
  cells_.clear();
  while (true) {
    if (format_.quoting && position_ < text_.size() &&
        text_[position_] == '"') {
      read_quoted_cell();
    } else {
      read_cell();
    }
    if (position_ >= text_.size()) {
      return true;
    }
    if (text_[position_] != format_.delimiter) {
      skip_line_end();
      return true;
    }
    ++position_;
  }
}

void CsvReader::read_cell() {
  const std::size_t begin = position_;
  while (position_ < text_.size() && text_[position_] != format_.delimiter &&
         !at_line_end()) {
    ++position_;
  }
  cells_.push_back({text_.substr(begin, position_ - begin), begin, false});
}

void CsvReader::read_quoted_cell() {
  const std::size_t begin = position_ + 1;
  bool doubled = false;
  std::size_t end = begin;
  while (true) {
    end = text_.find('"', end);
    if (end == std::string_view::npos) {
      fail(begin - 1, "the quote that opens here is never closed");
    }
    if (end + 1 >= text_.size() || text_[end + 1] != '"') {
      break;
    }
    doubled = true;
    end += 2;
  }
  cells_.push_back({text_.substr(begin, end - begin), begin - 1, doubled});
  position_ = end + 1;
  if (position_ < text_.size() && text_[position_] != format_.delimiter &&
      !at_line_end()) {
    fail(
        position_,
        str_cat(
            "unexpected `",
            accelerate::printable(text_.substr(position_, 1)),
            "` after a closing quote; double each quote inside a cell"));
  }
}

bool CsvReader::at_line_end() const {
  return text_[position_] == '\n' ||
         (text_[position_] == '\r' &&
          (position_ + 1 == text_.size() || text_[position_ + 1] == '\n'));
}

void CsvReader::skip_line_end() {
  if (position_ < text_.size() && text_[position_] == '\r') {
    ++position_;
  }
  if (position_ < text_.size() && text_[position_] == '\n') {
    ++position_;
  }
}

}  // namespace transformers::datasets
