// SPDX-License-Identifier: Apache-2.0
// Infers the types of CSV columns, as Hugging Face Datasets does with pandas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "transformers/dataset.h"

namespace transformers::datasets {

/// The number of rows in a block. Hugging Face Datasets reads a file block by
/// block; the first block determines the types of the columns.
inline constexpr std::int64_t kCsvBlockRows = 10'000;

/// A cell that Hugging Face Datasets rejects, or whose value no column type can
/// represent.
struct CellProblem {
  std::size_t offset = 0;
  std::string message;
  std::string hint;
};

/// Infers the type of one column from its cells.
class TypeGuess {
 public:
  TypeGuess(std::string column, bool keep_default_na);

  /// Adds a cell; `offset` is its position in the file.
  void add(std::string_view text, std::size_t offset);
  /// Ends a block of `kCsvBlockRows` rows, or the last block of a file. Returns
  /// the first problem in the block, if any. `text_at` must return the text of
  /// the cell at an offset; it is called for error messages.
  std::optional<CellProblem> end_block(
      const std::function<std::string(std::size_t)>& text_at);
  void end_file();
  ColumnType result() const;

 private:
  enum class Kind { no_rows, missing, integer, real, boolean, string };

  /// The integer type with which pandas would read the block so far; see NOTE
  /// [Large integers].
  enum class IntegerStage { signed_integers, unsigned_integers, failed, ended };

  /// What is known about the cells of the current block.
  struct Block {
    bool has_rows = false;
    bool has_missing = false;
    bool all_integers = true;
    bool all_numbers = true;
    bool all_booleans = true;
    bool has_fraction = false;
    // Offsets of the first cell that is not missing, of the first such cell
    // that is not a number, and of the first that is not a boolean.
    std::optional<std::size_t> first;
    std::optional<std::size_t> not_a_number;
    std::optional<std::size_t> not_a_boolean;
    // Offset of the first integer that does not fit in signed 64 bits.
    std::optional<std::size_t> large;
    IntegerStage stage = IntegerStage::signed_integers;
    // Offset of the first cell whose text would change if it were parsed as an
    // integer, a real number or a boolean, and then formatted as text again.
    std::optional<std::size_t> not_written_integer;
    std::optional<std::size_t> not_written_real;
    std::optional<std::size_t> not_written_boolean;

    bool is_text() const { return !all_numbers && !all_booleans; }
    Kind kind() const;
    std::optional<std::size_t> unrepresentable() const;
  };

  void add_value(std::string_view text, std::size_t offset);
  void advance_stage(std::string_view text, std::size_t offset);
  void check_written_text(std::string_view text, std::size_t offset);
  std::optional<CellProblem> merge(
      Kind kind, const std::function<std::string(std::size_t)>& text_at);
  std::string conflict(const std::string& text) const;
  std::string changed_text(const std::string& text, Kind kind) const;

  std::string column_;
  bool keep_default_na_;
  Block block_;
  Kind file_ = Kind::no_rows;
  // Whether a block with fractions follows a block of integers.
  bool has_fraction_ = false;
  Kind all_ = Kind::no_rows;
};

}  // namespace transformers::datasets
