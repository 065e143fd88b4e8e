// SPDX-License-Identifier: Apache-2.0
#include "datasets/json_values.h"

#include <utility>

#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/csv_reader.h"

namespace transformers::datasets {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::size_t end_of_string(std::string_view text, std::size_t quote) {
  for (std::size_t i = quote + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

std::size_t end_of_nest(std::string_view text, std::size_t begin) {
  std::size_t depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '"') {
      i = end_of_string(text, i) - 1;
    } else if (text[i] == '{' || text[i] == '[') {
      ++depth;
    } else if ((text[i] == '}' || text[i] == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

std::size_t end_of_word(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size() && !is_space(text[end]) && text[end] != ',' &&
         text[end] != ']' && text[end] != '{' && text[end] != '[') {
    ++end;
  }
  return end;
}

}  // namespace

std::string_view json_value_at(std::string_view text, std::size_t offset) {
  const char first = text[offset];
  const std::size_t end = first == '"' ? end_of_string(text, offset)
                          : first == '{' || first == '['
                              ? end_of_nest(text, offset)
                              : end_of_word(text, offset);
  return text.substr(offset, end - offset);
}

JsonValues::JsonValues(std::string_view text, std::string source)
    : text_(text), source_(std::move(source)) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  position_ = text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const std::size_t begin = position_;
  is_list_ = text_.substr(position_).starts_with('[');
  if (is_list_) {
    const std::string_view head = text_.substr(position_, 100);
    is_list_of_rows_ = head.find('{') < head.find('"');
    ++position_;
    return;
  }
  skip_spaces();
  if (position_ > begin && text_.substr(position_).starts_with('[')) {
    fail(position_, "whitespace before the `[` of the list is not supported");
  }
}

void JsonValues::fail(std::size_t offset, const std::string& message) const {
  fail_at(source_, text_, offset, message);
}

void JsonValues::skip_spaces() {
  while (position_ < text_.size() && is_space(text_[position_])) {
    ++position_;
  }
}

void JsonValues::take_value() {
  offset_ = position_;
  value_ = json_value_at(text_, position_);
  if (value_.empty()) {
    fail(
        position_,
        accelerate::str_cat(
            "unexpected `",
            accelerate::printable(text_.substr(position_, 1)),
            "`"));
  }
  position_ += value_.size();
}

bool JsonValues::next() {
  skip_spaces();
  if (is_list_) {
    return next_in_list();
  }
  if (position_ >= text_.size()) {
    return false;
  }
  take_value();
  return true;
}

bool JsonValues::next_in_list() {
  const bool was_first = std::exchange(is_first_, false);
  if (position_ >= text_.size()) {
    fail(text_.find('['), "the list that begins here is never closed");
  }
  if (text_[position_] == ']') {
    ++position_;
    skip_spaces();
    if (position_ < text_.size()) {
      fail(position_, "unexpected text after the list");
    }
    return false;
  }
  if (!was_first) {
    if (text_[position_] != ',') {
      fail(position_, "expected `,` or `]` after an element of the list");
    }
    ++position_;
    skip_spaces();
    if (position_ >= text_.size()) {
      fail(text_.find('['), "the list that begins here is never closed");
    }
  }
  take_value();
  return true;
}

}  // namespace transformers::datasets
