// SPDX-License-Identifier: Apache-2.0
// Rows from CSV, TSV, JSON lines and plain text, however large the files.
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

/// What a column holds. A value may be missing, whatever the type.
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

/// One cell; `std::monostate` where a value is missing.
using Value = std::variant<
    std::monostate,
    bool,
    std::int64_t,
    double,
    std::string,
    std::vector<std::int64_t>,
    std::vector<double>,
    std::vector<std::string>>;

/// One row: values by column, in the order of the columns. A plain value.
class TRANSFORMERS_API Row {
 public:
  using Cell = std::pair<std::string, Value>;

  Row() = default;
  Row(std::initializer_list<Cell> cells);

  std::size_t size() const { return cells_.size(); }
  auto begin() const { return cells_.begin(); }
  auto end() const { return cells_.end(); }

  bool contains(std::string_view column) const;
  /// Throws `ArgumentError` that lists the columns there are.
  const Value& at(std::string_view column) const;
  /// Replaces the column's value, or adds the column at the end.
  void set(std::string_view column, Value value);
  /// Removes a column; returns whether there was one.
  bool erase(std::string_view column);

  /// Each throws `ArgumentError` naming the column and what it holds when that
  /// is something else, or missing.
  const std::string& text(std::string_view column) const;
  std::int64_t integer(std::string_view column) const;
  double real(std::string_view column) const;  ///< Integers too.
  bool boolean(std::string_view column) const;
  const std::vector<std::int64_t>& integers(std::string_view column) const;
  const std::vector<double>& reals(std::string_view column) const;
  const std::vector<std::string>& strings(std::string_view column) const;

  bool operator==(const Row& other) const = default;

 private:
  std::vector<Cell> cells_;
};

struct Column {
  std::string name;
  ColumnType type = ColumnType::string;

  bool operator==(const Column& other) const = default;
};

struct DatasetMapOptions {
  /// Threads that call the function, which must then be safe to call so.
  std::int64_t num_threads = 1;
  /// Names what the function does. With one, the result is kept on disk and
  /// found again by it and by the content of this dataset: change it whenever
  /// the function changes. Without one the result ends with the program.
  std::string fingerprint = {};
  /// Columns of this dataset that the result shall not have.
  std::vector<std::string> remove_columns = {};
  /// Where results are kept; `datasets/accelerate_cpp` of the cache of
  /// Hugging Face unless told (HF_DATASETS_CACHE, HF_HOME).
  std::filesystem::path cache_dir = {};
  /// Longest wait for another process that is making the same result.
  double lock_timeout_seconds = 3600;
};

struct SplitOptions {
  /// A share between 0 and 1, or a number of rows; 0.25 unless told.
  std::optional<double> test_size = std::nullopt;
  std::optional<std::int64_t> test_rows = std::nullopt;
  bool shuffle = true;
  std::uint64_t seed = 0;
};

struct DatasetSplit;

/// A table of rows. A handle: copies share the rows, which never change.
///
/// Rows lie in files that are mapped into memory and are read when asked for;
/// in memory there are 8 bytes a row. The files must not change meanwhile.
///
/// Thread safety: any number of threads.
class TRANSFORMERS_API Dataset {
 public:
  /// What `get` gives, given in memory; every row has the same columns.
  ///
  /// Throws `ArgumentError` that names the row otherwise.
  static Dataset from_rows(const std::vector<Row>& rows);

  std::int64_t size() const;
  /// Throws `ArgumentError` unless 0 ≤ `index` < `size()`.
  Row get(std::int64_t index) const;
  Row operator[](std::int64_t index) const { return get(index); }

  const std::vector<Column>& columns() const;
  std::vector<std::string> column_names() const;

  /// Calls `function` for every row; what it returns is put over the row:
  /// columns are replaced or added.
  ///
  /// Every row must get the same columns. Throws what `function` throws, and
  /// `ArgumentError` with the row's index when columns or types differ.
  [[nodiscard]] Dataset map(
      const std::function<Row(const Row&)>& function,
      const DatasetMapOptions& options = {}) const;

  /// The rows for which `keep` says true, in their order.
  [[nodiscard]] Dataset filter(
      const std::function<bool(const Row&)>& keep,
      std::int64_t num_threads = 1) const;

  /// The rows with these indices, in this order; an index may repeat.
  [[nodiscard]] Dataset select(const std::vector<std::int64_t>& indices) const;

  /// All rows in an order that depends on size and seed alone.
  [[nodiscard]] Dataset shuffle(std::uint64_t seed) const;

  /// Two parts without a common row.
  ///
  /// Throws `ArgumentError` when one of them would be empty.
  [[nodiscard]] DatasetSplit train_test_split(
      const SplitOptions& options = {}) const;

  /// Each throws `ArgumentError` for a column that is not there, or a name
  /// that is there already.
  [[nodiscard]] Dataset rename_column(
      std::string_view from, std::string_view to) const;
  [[nodiscard]] Dataset remove_columns(
      const std::vector<std::string>& names) const;

  /// Equal for equal rows from equal files, whatever their paths: what cached
  /// results are found by. Reads the files once.
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

/// One path or several.
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
  /// Types of columns, where they shall not be found out. A value that is not
  /// of the type is an error then, and not a reason for another type.
  std::map<std::string, ColumnType> column_types = {};
  /// csv, tsv: the columns of files that have no header line.
  std::vector<std::string> column_names = {};
  /// csv, tsv: what stands between cells, in place of `,` or a tab.
  std::optional<char> delimiter = std::nullopt;
  /// csv, tsv: whether `"` encloses cells. Off for files such as GLUE's.
  bool quoting = true;
};

/// Reads files as rows, one table made of all of them.
///
/// `csv`, `tsv`: RFC 4180, a header line first, LF or CRLF, empty lines left
/// out; a column's type is found out from all its cells, and an empty cell is
/// a missing value (in a column of strings, an empty one). `json`: an object
/// a line. `text`: a column `text`, a row a line. All are UTF-8.
///
/// Throws `IoError` for a file that cannot be read, `FormatError` with file,
/// line and column for what is wrong in it, `ArgumentError` for another format
/// or options that do not fit it.
[[nodiscard]] TRANSFORMERS_API Dataset load_dataset(
    std::string_view format,
    const DataFiles& files,
    const LoadDatasetOptions& options = {});

}  // namespace transformers
