// SPDX-License-Identifier: Apache-2.0
// Datasets from CSV, TSV, JSON lines and plain text files of any size.
//
//     auto data = transformers::load_dataset("csv", "train.csv");
//     auto tokenized = data.map(
//         [&](const transformers::Row& row) {
//           return transformers::Row{{"input_ids", ids_of(row.text("text"))}};
//         },
//         {.num_threads = 4, .fingerprint = "bert-base", .remove_columns =
//         {"text"}});
//     accelerate::DataLoader loader(tokenized, {.batch_size = 8}, collator);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "transformers/export.h"

namespace transformers {
namespace datasets {
class RowBuilder;
}

/// The type of a column. A column of any type may have missing values.
enum class ColumnType {
  string,
  integer,
  real,
  boolean,
  strings,
  integers,
  reals,
};

[[nodiscard]] TRANSFORMERS_API std::string_view name_of(ColumnType type);

/// The value of one cell. `std::monostate` stands for a missing value.
using Value = std::variant<
    std::monostate,
    bool,
    std::int64_t,
    double,
    std::string,
    std::vector<std::int64_t>,
    std::vector<double>,
    std::vector<std::string>>;

/// One row: a value for each column, in the order of the columns.
class TRANSFORMERS_API Row {
 public:
  using Cell = std::pair<std::string, Value>;

  Row() = default;
  Row(std::initializer_list<Cell> cells);

  std::size_t size() const { return cells_.size(); }
  auto begin() const { return cells_.begin(); }
  auto end() const { return cells_.end(); }

  bool contains(std::string_view column) const;
  /// Returns the value of a column. Throws `ArgumentError` for an unknown
  /// column; the message lists the existing columns.
  const Value& at(std::string_view column) const;
  /// Replaces the column's value, or adds the column at the end.
  void set(std::string_view column, Value value);
  /// Removes a column. Returns whether it existed.
  bool erase(std::string_view column);

  /// Return the value of a column. Each function throws `ArgumentError` when
  /// the value is missing or has a different type; the message names the
  /// expected and the actual type.
  const std::string& text(std::string_view column) const;
  std::int64_t integer(std::string_view column) const;
  double real(std::string_view column) const;  ///< Also accepts integers.
  bool boolean(std::string_view column) const;
  const std::vector<std::int64_t>& integers(std::string_view column) const;
  const std::vector<double>& reals(std::string_view column) const;
  const std::vector<std::string>& strings(std::string_view column) const;

  bool operator==(const Row& other) const = default;

 private:
  friend class datasets::RowBuilder;
  std::vector<Cell> cells_;
};

struct Column {
  std::string name;
  ColumnType type = ColumnType::string;

  bool operator==(const Column& other) const = default;
};

struct DatasetMapOptions {
  /// Number of threads that call the function passed to `map`. With more than
  /// one thread, the function must be thread-safe.
  std::int64_t num_threads = 1;
  /// Identifies the function passed to `map`. The result is cached on disk
  /// under a key that consists of this fingerprint, `remove_columns` and the
  /// dataset's content, so change the fingerprint when the function changes. If
  /// the fingerprint is empty, the result is not cached: a result of up to 64
  /// MiB stays in memory, and a larger result is written to a temporary file,
  /// which is in `cache_dir` and is deleted automatically.
  std::string fingerprint = {};
  /// Columns of the original dataset to leave out of the result.
  std::vector<std::string> remove_columns = {};
  /// The folder for cached results. Default: `accelerate_cpp` in
  /// HF_DATASETS_CACHE, or else `datasets/accelerate_cpp` in HF_HOME. If the
  /// folder is not writable, every result stays in memory, and `map` throws
  /// `IoError` for a result that does not fit in memory.
  std::filesystem::path cache_dir = {};
  /// How long to wait for another process that is computing the same result.
  double lock_timeout_seconds = 3600;
};

struct SplitOptions {
  /// The fraction of rows in the test part, between 0 and 1. Default: 0.25.
  std::optional<double> test_size = std::nullopt;
  /// The number of rows in the test part. Set this instead of `test_size`.
  std::optional<std::int64_t> test_rows = std::nullopt;
  bool shuffle = true;
  std::uint64_t seed = 0;
};

struct DatasetSplit;

/// An immutable table of rows. Copies of a dataset share the rows.
///
/// The rows stay in their files, which are memory-mapped; a row is parsed when
/// it is requested. The dataset itself needs 8 bytes of memory per row. The
/// files must not change while the dataset exists.
///
/// Thread safety: any number of threads may use a dataset at the same time.
class TRANSFORMERS_API Dataset {
 public:
  /// Makes a dataset from rows in memory.
  ///
  /// Throws an `ArgumentError` that names the row when the columns or types in
  /// a row differ from earlier rows.
  static Dataset from_rows(const std::vector<Row>& rows);

  std::int64_t size() const;
  /// Returns a row. Throws `ArgumentError` unless 0 ≤ `index` < `size()`.
  Row get(std::int64_t index) const;
  Row operator[](std::int64_t index) const { return get(index); }

  const std::vector<Column>& columns() const;
  std::vector<std::string> column_names() const;

  /// Calls `function` for every row and returns the resulting dataset. Each
  /// column that `function` returns replaces the row's column of the same name,
  /// or is added to the row if there is no such column.
  ///
  /// Every resulting row must have the same columns in the same order. Throws
  /// an `ArgumentError` with the row's index when the columns or types in a row
  /// differ from earlier rows. Rethrows exceptions from `function`.
  [[nodiscard]] Dataset map(
      const std::function<Row(const Row&)>& function,
      const DatasetMapOptions& options = {}) const;

  /// Returns the rows for which `keep` returns true, in their original order.
  [[nodiscard]] Dataset filter(
      const std::function<bool(const Row&)>& keep,
      std::int64_t num_threads = 1) const;

  /// Returns the rows with these indices, in this order. An index may repeat.
  [[nodiscard]] Dataset select(const std::vector<std::int64_t>& indices) const;

  /// Returns all rows in a random order that depends only on the seed and the
  /// number of rows.
  [[nodiscard]] Dataset shuffle(std::uint64_t seed) const;

  /// Splits the rows into two parts that share no rows.
  ///
  /// Throws `ArgumentError` when one part would be empty.
  [[nodiscard]] DatasetSplit train_test_split(
      const SplitOptions& options = {}) const;

  /// Rename or remove columns. Both functions throw `ArgumentError` for an
  /// unknown column. `rename_column` also throws `ArgumentError` when the
  /// column `to` already exists.
  [[nodiscard]] Dataset rename_column(
      std::string_view from, std::string_view to) const;
  [[nodiscard]] Dataset remove_columns(
      const std::vector<std::string>& names) const;

  /// Returns a digest of the rows, which `map` uses to find cached results. The
  /// digest does not depend on the file paths. The first call reads each file
  /// once.
  std::string fingerprint() const;

  class Impl;
  explicit Dataset(std::shared_ptr<const Impl> impl);

 private:
  std::shared_ptr<const Impl> impl_;
};

struct DatasetSplit {
  Dataset train;
  Dataset test;
};

/// The paths of one or more data files.
class TRANSFORMERS_API DataFiles {
 public:
  DataFiles(const char* path);                              // NOLINT
  DataFiles(const std::string& path);                       // NOLINT
  DataFiles(std::filesystem::path path);                    // NOLINT
  DataFiles(std::vector<std::filesystem::path> paths);      // NOLINT
  DataFiles(std::initializer_list<std::filesystem::path>);  // NOLINT

  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  std::vector<std::filesystem::path> paths_;
};

struct LoadDatasetOptions {
  /// The types of columns, by column name. In these columns, a value of a
  /// different type is an error. The types of all other columns are inferred.
  std::map<std::string, ColumnType> column_types = {};
  /// csv, tsv: the column names for files without a header line.
  std::vector<std::string> column_names = {};
  /// csv, tsv: the character between cells. Default: `,` for csv, tab for tsv.
  std::optional<char> delimiter = std::nullopt;
  /// csv, tsv: whether cells may be enclosed in `"`. Set this to false if `"`
  /// is an ordinary character, as in the GLUE files.
  bool quoting = true;
  /// csv, tsv: whether empty cells, and the words that pandas treats as
  /// missing, such as `NA`, `NaN`, `None` and `null`, become missing values. If
  /// false, they are text.
  bool keep_default_na = true;
};

/// Reads files as one table of rows, with the same columns and values as
/// Hugging Face Datasets. All files must be UTF-8. Lines end with LF, CRLF or
/// CR.
///
/// - `csv`, `tsv`: RFC 4180 with a header line. Lines that contain only spaces
///   are skipped. Cells that are absent at the end of a row, empty cells and
///   the words of `keep_default_na` become missing values. The type of a column
///   is inferred from its cells: a column of integers with missing values is a
///   column of real numbers.
/// - `json`: JSON objects, usually one per line, or one list of objects.
/// - `text`: one row per line, with a single column named `text`.
///
/// Throws `IoError` for a file that cannot be read, and `ArgumentError` for an
/// unknown format or for options that the format does not use. Throws
/// `FormatError` with file, line and column for a malformed file, and for
/// values that no `ColumnType` can represent: nested objects and lists, lists
/// of booleans, integers of more than 64 bits in a CSV file, dates in a JSON
/// file.
[[nodiscard]] TRANSFORMERS_API Dataset load_dataset(
    std::string_view format,
    const DataFiles& files,
    const LoadDatasetOptions& options = {});

}  // namespace transformers
