// SPDX-License-Identifier: Apache-2.0
#include "datasets/csv_types.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/csv_cells.h"
#include "datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::str_cat;

void set_once(std::optional<std::size_t>& position, std::size_t offset) {
  position = position.value_or(offset);
}

std::string shown(const std::string& text) {
  return accelerate::printable(text.substr(0, 80));
}

}  // namespace

TypeGuess::TypeGuess(std::string column, bool keep_default_na)
    : column_(std::move(column)), keep_default_na_(keep_default_na) {
}

void TypeGuess::add(std::string_view text, std::size_t offset) {
  block_.has_rows = true;
  if (keep_default_na_ && is_missing_word(text)) {
    block_.has_missing = true;
  } else if (!block_.is_text()) {
    add_value(text, offset);
  }
}

void TypeGuess::add_value(std::string_view text, std::size_t offset) {
  set_once(block_.first, offset);
  if (file_ == Kind::string) {
    check_written_text(text, offset);
  }
  advance_stage(text, offset);
  const IntegerSize size = parse_cell_integer(text).size;
  const auto real = size == IntegerSize::none && block_.all_numbers
                        ? parse_cell_real(text)
                        : std::nullopt;
  block_.all_integers = block_.all_integers && size != IntegerSize::none;
  const bool is_large =
      size == IntegerSize::large || size == IntegerSize::very_large;
  block_.has_fraction =
      block_.has_fraction || is_large || (real && !whole(*real));
  if (size == IntegerSize::none && !real) {
    block_.all_numbers = false;
    set_once(block_.not_a_number, offset);
  }
  if (block_.all_booleans && !parse_cell_boolean(text)) {
    block_.all_booleans = false;
    set_once(block_.not_a_boolean, offset);
  }
}

// NOTE [Large integers] pandas first reads a column as signed integers. At the
// first integer that does not fit, pandas starts to read the column as unsigned
// integers, and from then on accepts any cell with a minus sign. At a cell that
// is not an integer, pandas stops reading integers and tries real numbers,
// booleans and text.
//
// If all cells are integers, the result is a column of unsigned integers. If
// any cell has a minus sign or is missing, the result is text in which missing
// values are empty. If an integer does not fit in an unsigned integer either,
// the result is Python integers or, again, such text.
void TypeGuess::advance_stage(std::string_view text, std::size_t offset) {
  if (block_.stage == IntegerStage::failed ||
      block_.stage == IntegerStage::ended) {
    return;
  }
  const IntegerSize size = parse_cell_integer(text).size;
  const bool is_large =
      size == IntegerSize::large || size == IntegerSize::very_large;
  const bool has_minus = has_minus_sign(text);
  if (is_large) {
    set_once(block_.large, offset);
    block_.stage = IntegerStage::unsigned_integers;
  }
  if (block_.stage == IntegerStage::unsigned_integers && has_minus) {
    return;
  }
  if (size == IntegerSize::none) {
    block_.stage = IntegerStage::ended;
  } else if (size == IntegerSize::very_large) {
    block_.stage = IntegerStage::failed;
  }
}

// If a later block of a text column contains only numbers or only booleans,
// Python parses the cells and formats them as text again.
void TypeGuess::check_written_text(std::string_view text, std::size_t offset) {
  const auto integer = parse_cell_integer(text);
  if (integer.size != IntegerSize::fits ||
      !is_written_as(integer.value, text)) {
    set_once(block_.not_written_integer, offset);
  }
  const auto real = parse_cell_real(text);
  if (!real || !is_written_as(*real, text)) {
    set_once(block_.not_written_real, offset);
  }
  if (text != "true" && text != "false") {
    set_once(block_.not_written_boolean, offset);
  }
}

TypeGuess::Kind TypeGuess::Block::kind() const {
  if (!first) {
    return has_rows ? Kind::missing : Kind::no_rows;
  }
  if (all_numbers) {
    return all_integers && !has_missing ? Kind::integer : Kind::real;
  }
  return all_booleans ? Kind::boolean : Kind::string;
}

// Returns the offset of an integer that pandas did not read as an integer,
// unless the column is text anyway.
std::optional<std::size_t> TypeGuess::Block::unrepresentable() const {
  const bool was_read =
      stage == IntegerStage::signed_integers || stage == IntegerStage::ended;
  const bool is_plain_text = is_text() && !has_missing;
  return was_read || is_plain_text ? std::nullopt : large;
}

std::string TypeGuess::conflict(const std::string& text) const {
  const char* before = file_ == Kind::integer   ? "holds integers"
                       : file_ == Kind::real    ? "holds numbers"
                       : file_ == Kind::boolean ? "holds booleans"
                                                : "has no values";
  return str_cat(
      "column `",
      column_,
      "` ",
      before,
      " in the first ",
      kCsvBlockRows,
      " rows of the file, but `",
      shown(text),
      "` here");
}

std::string TypeGuess::changed_text(const std::string& text, Kind kind) const {
  return str_cat(
      "column `",
      column_,
      "` holds text in the first ",
      kCsvBlockRows,
      " rows of the file, but only ",
      kind == Kind::boolean ? "booleans" : "numbers",
      " in a later block of rows, so Hugging Face Datasets would read `",
      shown(text),
      "` as a ",
      kind == Kind::boolean ? "boolean" : "number",
      " and change its text");
}

// Converts a block to the type of the file's first block. Returns a problem if
// Python fails to convert the block or gets different values.
std::optional<CellProblem> TypeGuess::merge(
    Kind kind, const std::function<std::string(std::size_t)>& text_at) {
  const auto conflict_at = [&](std::optional<std::size_t> offset) {
    return CellProblem{
        *offset,
        conflict(text_at(*offset)),
        "set the type of the column with `column_types`"};
  };
  if (kind == Kind::missing || kind == file_) {
    return std::nullopt;
  }
  switch (file_) {
    case Kind::no_rows:
      file_ = kind;
      return std::nullopt;
    case Kind::string: {
      const auto changed = kind == Kind::integer   ? block_.not_written_integer
                           : kind == Kind::boolean ? block_.not_written_boolean
                                                   : block_.not_written_real;
      if (!changed) {
        return std::nullopt;
      }
      return CellProblem{
          *changed,
          changed_text(text_at(*changed), kind),
          "to keep the text, set the type to string with `column_types`"};
    }
    case Kind::boolean:
      return conflict_at(
          kind == Kind::string ? block_.not_a_boolean : block_.first);
    case Kind::missing:
    case Kind::integer:
    case Kind::real:
      if (kind == Kind::boolean || kind == Kind::string) {
        return conflict_at(block_.not_a_number);
      }
      file_ = file_ == Kind::missing ? Kind::real : file_;
      has_fraction_ = has_fraction_ || block_.has_fraction;
      return std::nullopt;
  }
  throw accelerate::InternalError("unknown kind of column");
}

std::optional<CellProblem> TypeGuess::end_block(
    const std::function<std::string(std::size_t)>& text_at) {
  if (const auto large = block_.unrepresentable()) {
    return CellProblem{
        *large,
        str_cat(
            "column `",
            column_,
            "`: `",
            shown(text_at(*large)),
            "` does not fit in a 64-bit integer"),
        "set the type of the column to real or string with `column_types`"};
  }
  const Kind kind = block_.kind();
  auto problem = kind == Kind::no_rows ? std::nullopt : merge(kind, text_at);
  if (file_ == Kind::no_rows) {
    file_ = kind;
  }
  block_ = {};
  return problem;
}

void TypeGuess::end_file() {
  // Python rejects a column whose type differs between files, and fractions
  // after integers. Here, such a column becomes real or string instead.
  Kind file = file_ == Kind::integer && has_fraction_ ? Kind::real : file_;
  const bool both_numbers = (all_ == Kind::integer && file == Kind::real) ||
                            (all_ == Kind::real && file == Kind::integer);
  if (all_ == Kind::no_rows || all_ == Kind::missing) {
    all_ = file == Kind::no_rows ? all_ : file;
  } else if (file != Kind::no_rows && file != Kind::missing && file != all_) {
    all_ = both_numbers ? Kind::real : Kind::string;
  }
  file_ = Kind::no_rows;
  has_fraction_ = false;
}

ColumnType TypeGuess::result() const {
  switch (all_) {
    case Kind::integer:
      return ColumnType::integer;
    case Kind::missing:
    case Kind::real:
      return ColumnType::real;
    case Kind::boolean:
      return ColumnType::boolean;
    case Kind::no_rows:
    case Kind::string:
      return ColumnType::string;
  }
  throw accelerate::InternalError("unknown kind of column");
}

}  // namespace transformers::datasets
