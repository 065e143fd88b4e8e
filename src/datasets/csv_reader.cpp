// SPDX-License-Identifier: Apache-2.0
#include "datasets/csv_reader.h"

#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::datasets {

using accelerate::str_cat;

std::string CsvCell::text() const {
  if (!has_quotes_inside) {
    return std::string(raw);
  }
  std::string result;
  bool in_quotes = true;
  for (std::size_t i = 1; i < raw.size(); ++i) {
    if (!in_quotes || raw[i] != '"') {
      result += raw[i];
    } else if (i + 1 < raw.size() && raw[i + 1] == '"') {
      result += raw[i++];
    } else {
      in_quotes = false;  // The rest is ordinary text.
    }
  }
  return result;
}

void fail_at(
    const std::string& source,
    std::string_view text,
    std::size_t offset,
    const std::string& message,
    const std::string& hint) {
  std::size_t line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < offset; ++i) {
    const bool ends_line =
        text[i] == '\n' ||
        (text[i] == '\r' && !text.substr(i + 1).starts_with('\n'));
    if (ends_line) {
      ++line;
      line_start = i + 1;
    }
  }
  throw accelerate::FormatError(
      str_cat(source, ":", line, ":", offset - line_start + 1, ": ", message),
      hint);
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

std::string CsvReader::text_at(std::size_t offset) {
  seek(offset);
  cells_.clear();
  read_cell();
  return cells_.back().text();
}

void CsvReader::fail(
    std::size_t offset,
    const std::string& message,
    const std::string& hint) const {
  fail_at(source_, text_, offset, message, hint);
}

bool CsvReader::next() {
  while (skip_blank_line()) {
  }
  if (position_ >= text_.size()) {
    return false;
  }
  record_ = position_;
  cells_.clear();
  while (true) {
    read_cell();
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

bool CsvReader::skip_blank_line() {
  std::size_t end = position_;
  while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t') &&
         text_[end] != format_.delimiter) {
    ++end;
  }
  const bool is_end = end >= text_.size();
  if (position_ >= text_.size() ||
      (!is_end && text_[end] != '\n' && text_[end] != '\r')) {
    return false;
  }
  position_ = end;
  const bool is_old_mac_line = text_.substr(end).starts_with('\r') &&
                               !text_.substr(end).starts_with("\r\n");
  skip_line_end();
  if (is_old_mac_line &&
      text_.substr(position_).starts_with(format_.delimiter)) {
    fail(
        position_,
        "Hugging Face Datasets drops the empty first cell of this line, "
        "because the line before it is empty and ends with CR",
        "remove the empty line");
  }
  return true;
}

void CsvReader::read_cell() {
  if (format_.quoting && position_ < text_.size() && text_[position_] == '"') {
    read_quoted_cell();
  } else {
    read_plain_cell();
  }
}

void CsvReader::read_plain_cell() {
  const std::size_t begin = position_;
  while (!at_cell_end()) {
    ++position_;
  }
  cells_.push_back({text_.substr(begin, position_ - begin), begin, false});
}

void CsvReader::read_quoted_cell() {
  const std::size_t begin = position_;
  bool doubled = false;
  std::size_t end = begin + 1;
  while (true) {
    end = text_.find('"', end);
    if (end == std::string_view::npos) {
      fail(begin, "the quote that opens here is never closed");
    }
    if (end + 1 >= text_.size() || text_[end + 1] != '"') {
      break;
    }
    doubled = true;
    end += 2;
  }
  position_ = end + 1;
  const bool has_rest = !at_cell_end();
  while (!at_cell_end()) {
    ++position_;
  }
  if (doubled || has_rest) {
    cells_.push_back({text_.substr(begin, position_ - begin), begin, true});
  } else {
    cells_.push_back({text_.substr(begin + 1, end - begin - 1), begin, false});
  }
}

bool CsvReader::at_line_end() const {
  return text_[position_] == '\n' || text_[position_] == '\r';
}

bool CsvReader::at_cell_end() const {
  return position_ >= text_.size() || text_[position_] == format_.delimiter ||
         at_line_end();
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
