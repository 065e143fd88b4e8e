// SPDX-License-Identifier: Apache-2.0
// `Dataset::map`: applies a function to blocks of rows and collects the
// results.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <unistd.h>

#include "accelerate/error.h"
#include "base/file_lock.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "config/environment.h"
#include "config/user_folders.h"
#include "datasets/dataset_impl.h"
#include "datasets/row_builder.h"
#include "datasets/row_file.h"
#include "datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

// Large enough that threads rarely contend, small enough to keep all of them
// busy.
constexpr std::int64_t kBlockRows = 256;

/// The columns of the rows so far. All rows have the same column names, and the
/// types in a column have a common type.
class Schema {
 public:
  void add(const Row& row, std::int64_t index) {
    if (columns_.empty()) {
      for (const auto& [name, value] : row) {
        columns_.push_back(name);
        types_.push_back(type_of(value));
      }
      return;
    }
    check_names(row, index);
    std::size_t i = 0;
    for (const auto& [name, value] : row) {
      merge_type(i++, type_of(value), index);
    }
  }

  std::vector<Column> result() const {
    std::vector<Column> columns;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      columns.push_back({columns_[i], types_[i].value_or(ColumnType::string)});
    }
    return columns;
  }

 private:
  void check_names(const Row& row, std::int64_t index) const {
    bool same = row.size() == columns_.size();
    std::size_t i = 0;
    for (const auto& [name, value] : row) {
      same = same && name == columns_[i++];
    }
    if (!same) {
      throw ArgumentError(
          str_cat(
              "`map`: row ", index, " has different columns from earlier rows"),
          "return the same columns in the same order for every row");
    }
  }

  void merge_type(
      std::size_t column, std::optional<ColumnType> type, std::int64_t index) {
    auto& column_type = types_[column];
    const auto common = column_type && type ? common_type(*column_type, *type)
                        : column_type       ? column_type
                                            : type;
    if (column_type && !common) {
      throw ArgumentError(str_cat(
          "`map`: row ",
          index,
          ": column `",
          columns_[column],
          "` is ",
          described(*type),
          ", but in earlier rows it is ",
          described(*column_type)));
    }
    column_type = common;
  }

  std::vector<std::string> columns_;
  std::vector<std::optional<ColumnType>> types_;
};

/// Writes blocks in order, although threads finish them in any order.
class OrderedWriter {
 public:
  OrderedWriter(
      const std::filesystem::path& folder,
      const std::optional<std::filesystem::path>& name)
      : rows_(folder, name) {}

  /// Waits until all earlier blocks have been added, then adds this block. Adds
  /// nothing after a call of `stop`.
  void add(
      std::int64_t block,
      std::int64_t first_row,
      const std::vector<Row>& rows) {
    std::string bytes;
    std::vector<std::size_t> sizes;
    for (const Row& row : rows) {
      const std::size_t before = bytes.size();
      for (const auto& [name, value] : row) {
        append_value(bytes, value);
      }
      sizes.push_back(bytes.size() - before);
    }
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return stopped_ || next_ == block; });
    if (stopped_) {
      return;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      schema_.add(rows[i], first_row + static_cast<std::int64_t>(i));
    }
    rows_.append(bytes, sizes);
    ++next_;
    turn_.notify_all();
  }

  /// Wakes all waiting threads, because a block failed.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    turn_.notify_all();
  }

  TablePointer finish(const std::vector<Column>& columns_if_empty) {
    auto columns = schema_.result();
    return rows_.finish(columns.empty() ? columns_if_empty : columns);
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::int64_t next_ = 0;
  bool stopped_ = false;
  Schema schema_;
  RowFileWriter rows_;
};

/// Returns `row` with the columns of `result` replaced or added, and without
/// the columns in `removed`.
Row merged(
    const Row& row,
    const Row& result,
    const std::unordered_set<std::string_view>& removed) {
  std::unordered_map<std::string_view, const Value*> returned;
  for (const auto& [name, value] : result) {
    returned.emplace(name, &value);
  }
  std::vector<Row::Cell> cells;
  cells.reserve(row.size() + result.size());
  for (const auto& [name, value] : row) {
    if (removed.contains(name)) {
      continue;
    }
    const auto replacement = returned.find(name);
    if (replacement == returned.end()) {
      cells.emplace_back(name, value);
    } else {
      cells.emplace_back(name, *replacement->second);
      returned.erase(replacement);
    }
  }
  for (const auto& [name, value] : result) {
    if (returned.contains(name)) {
      cells.emplace_back(name, value);
    }
  }
  return RowBuilder::row(std::move(cells));
}

TablePointer make_rows(
    const Dataset& dataset,
    const std::function<Row(const Row&)>& function,
    const DatasetMapOptions& options,
    const std::filesystem::path& folder,
    const std::optional<std::filesystem::path>& name) {
  OrderedWriter writer(folder, name);
  const std::int64_t size = dataset.size();
  const std::unordered_set<std::string_view> removed(
      options.remove_columns.begin(), options.remove_columns.end());
  for_each_block(
      (size + kBlockRows - 1) / kBlockRows,
      options.num_threads,
      [&](std::int64_t block) {
        try {
          std::vector<Row> rows;
          const std::int64_t first = block * kBlockRows;
          const std::int64_t end = std::min(size, first + kBlockRows);
          for (std::int64_t i = first; i < end; ++i) {
            const Row row = dataset.get(i);
            rows.push_back(merged(row, function(row), removed));
          }
          writer.add(block, first, rows);
        } catch (...) {
          writer.stop();
          throw;
        }
      });
  return writer.finish(
      dataset.remove_columns(options.remove_columns).columns());
}

std::filesystem::path cache_folder(const DatasetMapOptions& options) {
  if (!options.cache_dir.empty()) {
    return options.cache_dir;
  }
  const auto environment = accelerate::Environment::of_this_process();
  const auto datasets_cache = environment.get("HF_DATASETS_CACHE");
  return (datasets_cache ? expand_home(*datasets_cache, environment)
                         : hugging_face_home(environment) / "datasets") /
         "accelerate_cpp";
}

std::string cache_key(
    const Dataset& dataset, const DatasetMapOptions& options) {
  std::string key = str_cat(
      "map 1\n", dataset.fingerprint(), "\n", options.fingerprint, "\n");
  for (const std::string& name : options.remove_columns) {
    key += name + "\n";
  }
  return accelerate::sha256_hex(key).substr(0, 40);
}

/// Waits until no other process is computing the same result, and returns the
/// lock. Returns nothing if the folder is not writable; then every process
/// computes the result itself.
std::optional<accelerate::FileLock> lock_result(
    const std::filesystem::path& folder,
    const std::string& key,
    double timeout_seconds) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK) != 0) {
    return std::nullopt;
  }
  return std::optional<accelerate::FileLock>(
      std::in_place,
      folder / (key + ".lock"),
      std::chrono::milliseconds(
          static_cast<std::int64_t>(timeout_seconds * 1000)));
}

/// Returns the cached rows, or nothing if the file is missing or unusable.
TablePointer find_rows(const std::filesystem::path& path) {
  try {
    return open_row_file(path);
  } catch (const accelerate::Error&) {
    return nullptr;  // The file is written again.
  }
}

}  // namespace

void for_each_block(
    std::int64_t blocks,
    std::int64_t num_threads,
    const std::function<void(std::int64_t)>& work) {
  if (num_threads < 1) {
    throw ArgumentError(
        str_cat("`num_threads` is ", num_threads), "pass 1 or more");
  }
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::int64_t failed_block = blocks;
  const auto run = [&] {
    for (std::int64_t block = next++; block < blocks; block = next++) {
      try {
        work(block);
      } catch (...) {
        next = blocks;
        const std::lock_guard lock(mutex);
        if (block < failed_block) {
          failed_block = block;
          failure = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::int64_t i = 1; i < std::min(num_threads, blocks); ++i) {
      threads.emplace_back(run);
    }
    run();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

TablePointer map_rows(
    const Dataset& dataset,
    const std::function<Row(const Row&)>& function,
    const DatasetMapOptions& options) {
  const std::filesystem::path folder = cache_folder(options);
  if (options.fingerprint.empty()) {
    return make_rows(dataset, function, options, folder, std::nullopt);
  }
  const std::string key = cache_key(dataset, options);
  const std::filesystem::path path = folder / (key + ".rows");
  if (auto rows = find_rows(path)) {
    return rows;
  }
  const auto lock = lock_result(folder, key, options.lock_timeout_seconds);
  if (auto rows = find_rows(path)) {
    return rows;  // Another process has written the file.
  }
  return make_rows(dataset, function, options, folder, path);
}

}  // namespace transformers::datasets
