// SPDX-License-Identifier: Apache-2.0
// CSV as RFC 4180 has it, record by record, without copies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace transformers::datasets {

struct CsvFormat {
  char delimiter = ',';
  /// Off: `"` is a character like any other.
  bool quoting = true;
};

/// What stands between two delimiters, without the quotes around it.
struct CsvCell {
  std::string_view raw;
  std::size_t offset = 0;  ///< Of its first byte, the quote included.
  bool doubled_quotes = false;

  std::string text() const;
};

/// Walks over the records of a text.
class CsvReader {
 public:
  /// `source` is named in errors; the text must outlive the reader.
  CsvReader(std::string_view text, const CsvFormat& format, std::string source);

  /// Reads the next record that is not an empty line; false at the end.
  ///
  /// Throws `FormatError` as `source:line:column: what is wrong`.
  bool next();

  const std::vector<CsvCell>& cells() const { return cells_; }
  /// Where the record begins.
  std::size_t record_offset() const { return record_; }
  /// Goes on at `offset`, which must be where a record begins.
  void seek(std::size_t offset);

  /// Throws `FormatError` for what lies at `offset` of the current record.
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const;

 private:
  void read_cell();
  void read_quoted_cell();
  bool at_line_end() const;
  void skip_line_end();

  std::string_view text_;
  CsvFormat format_;
  std::string source_;
  std::vector<CsvCell> cells_;
  std::size_t position_ = 0;
  std::size_t record_ = 0;
};

/// Throws `FormatError` with line and column of a byte of `text`.
[[noreturn]] void fail_at(
    const std::string& source,
    std::string_view text,
    std::size_t offset,
    const std::string& what);

}  // namespace transformers::datasets
