// SPDX-License-Identifier: Apache-2.0
// Finds the JSON values in a text without parsing them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace transformers::datasets {

/// Iterates over the rows of a JSON file: objects, possibly separated by
/// whitespace, or the elements of one list.
class JsonValues {
 public:
  /// `source` names the text in error messages. `text` must outlive this
  /// object.
  JsonValues(std::string_view text, std::string source);

  /// Finds the next value. Returns false at the end. Throws `FormatError` with
  /// the position of a value that is never closed, or of text between values.
  bool next();

  /// Returns whether the text is one list.
  bool is_list() const { return is_list_; }
  /// Returns whether the elements of the list are the rows. If false, the
  /// elements are the values of a column named `text`. Follows the rule of
  /// Hugging Face Datasets.
  bool is_list_of_rows() const { return is_list_of_rows_; }

  std::size_t offset() const { return offset_; }
  std::string_view value() const { return value_; }

 private:
  bool next_in_list();
  void skip_spaces();
  void take_value();
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;

  std::string_view text_;
  std::string source_;
  bool is_list_ = false;
  bool is_list_of_rows_ = false;
  bool is_first_ = true;
  std::size_t position_ = 0;
  std::size_t offset_ = 0;
  std::string_view value_;
};

/// Returns the JSON value that begins at `offset`. If the value is never
/// closed, returns the rest of the text.
std::string_view json_value_at(std::string_view text, std::size_t offset);

}  // namespace transformers::datasets
