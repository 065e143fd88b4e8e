// SPDX-License-Identifier: Apache-2.0
// Reads CSV record by record, without copying, as pandas does.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace transformers::datasets {

struct CsvFormat {
  char delimiter = ',';
  /// Whether cells may be enclosed in `"`. If false, `"` is an ordinary
  /// character.
  bool quoting = true;
};

/// One cell of a record: the text between two delimiters.
struct CsvCell {
  /// The text without enclosing quotes; if `has_quotes_inside`, everything from
  /// the opening quote to the delimiter.
  std::string_view raw;
  /// The offset of the first byte, including an opening quote.
  std::size_t offset = 0;
  bool has_quotes_inside = false;

  std::string text() const;
};

/// Iterates over the records in a text. A line ends with LF, CRLF or CR.
class CsvReader {
 public:
  /// `source` names the text in error messages. `text` must outlive the reader.
  CsvReader(std::string_view text, const CsvFormat& format, std::string source);

  /// Reads the next record. Skips lines that are empty or contain only spaces
  /// and tabs. Returns false at the end.
  ///
  /// Throws `FormatError` for a malformed record; the message starts with
  /// `source:line:column:`.
  bool next();

  const std::vector<CsvCell>& cells() const { return cells_; }
  /// Returns the offset of the current record's first byte.
  std::size_t record_offset() const { return record_; }
  /// Continues at `offset`, which must be the start of a record.
  void seek(std::size_t offset);
  /// Moves the reader to `offset` and returns the text of the cell that begins
  /// there.
  std::string text_at(std::size_t offset);

  /// Throws `FormatError` with the line and column of `offset` in the text.
  [[noreturn]] void fail(
      std::size_t offset,
      const std::string& message,
      const std::string& hint = {}) const;

 private:
  bool skip_blank_line();
  void read_cell();
  void read_plain_cell();
  void read_quoted_cell();
  bool at_line_end() const;
  bool at_cell_end() const;
  void skip_line_end();

  std::string_view text_;
  CsvFormat format_;
  std::string source_;
  std::vector<CsvCell> cells_;
  std::size_t position_ = 0;
  std::size_t record_ = 0;
};

/// Throws `FormatError` with the line and column of `offset` in `text`.
[[noreturn]] void fail_at(
    const std::string& source,
    std::string_view text,
    std::size_t offset,
    const std::string& message,
    const std::string& hint = {});

}  // namespace transformers::datasets
