// SPDX-License-Identifier: Apache-2.0
#include "tracking/csv_tracker.h"

#include <charconv>
#include <cmath>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/flatten.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::string csv_number(double value) {
  if (!std::isfinite(value)) {
    return json_number(value).as_string();
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return {text, end.ptr};
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  return str_cat("\"", replace_all(text, "\"", "\"\""), "\"");
}

std::string csv_cell(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> std::string {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, double>) {
          return csv_number(content);
        } else if constexpr (std::is_same_v<Content, std::string>) {
          return csv_text(content);
        } else if constexpr (std::is_same_v<Content, Histogram>) {
          return {};
        } else {
          return std::to_string(content);
        }
      },
      value);
}

std::string seconds_text(std::int64_t time_us) {
  char fraction[8];
  std::snprintf(
      fraction,
      sizeof(fraction),
      "%06lld",
      static_cast<long long>(time_us % 1000000));
  return str_cat(time_us / 1000000, ".", fraction);
}

// The number of bytes of the header and of complete rows that are not newer
// than `keep_until_us`. Reads the names of the columns.
std::uint64_t rows_to_keep(
    const fs::path& path,
    std::int64_t keep_until_us,
    std::vector<std::string>& columns) {
  if (!fs::exists(path) || fs::file_size(path) == 0) {
    return 0;
  }
  const MappedFile file(path, MappedFile::Mode::read_only);
  std::string_view rest = file.text();
  std::vector<std::string> cells;
  if (!read_csv_row(rest, columns)) {
    return 0;
  }
  std::size_t kept = file.size() - rest.size();
  while (read_csv_row(rest, cells)) {
    const auto time =
        cells.size() > 1 ? parse_double(cells[1]) : std::optional<double>();
    if (time && std::llround(*time * 1e6) > keep_until_us) {
      break;
    }
    kept = file.size() - rest.size();
  }
  return kept;
}

}  // namespace

bool read_csv_row(
    std::string_view& rest, std::vector<std::string>& cells, char separator) {
  std::vector<std::string> row(1);
  bool quoted = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '"' && quoted && i + 1 < rest.size() && rest[i + 1] == '"') {
      row.back() += rest[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      row.emplace_back();
    } else if (c == '\n' && !quoted) {
      rest.remove_prefix(i + 1);
      cells = std::move(row);
      return true;
    } else {
      row.back() += c;
    }
  }
  return false;
}

std::string CsvTracker::header() const {
  std::vector<std::string> names;
  for (const std::string& column : columns_) {
    names.push_back(csv_text(column));
  }
  return join(names, ",") + "\n";
}

void CsvTracker::open(const fs::path& folder, std::int64_t keep_until_us) {
  columns_.clear();
  column_of_.clear();
  file_ = AppendFile(folder / kFile);
  file_.truncate(rows_to_keep(file_.path(), keep_until_us, columns_));
  file_existed_ = file_.size() > 0;
  if (columns_.empty()) {
    columns_ = {"_step", "_time"};
    file_.append(header());
    file_.flush();
  }
  for (std::size_t i = 2; i < columns_.size(); ++i) {
    column_of_[columns_[i]] = i;
  }
  header_bytes_ = header().size();
}

void CsvTracker::discard() {
  const fs::path path = file_.path();
  file_ = {};
  if (!file_existed_) {
    fs::remove(path);
    fs::remove(folder() / kConfigFile);
  }
}

void CsvTracker::write_config(const Json& config) {
  write_file(
      folder() / kConfigFile,
      config.dump({.indent = 2, .allow_nan = true}) + "\n");
}

void CsvTracker::add_columns(const std::vector<TrackedEntry>& entries) {
  const std::size_t before = columns_.size();
  for (const TrackedEntry& entry : entries) {
    const std::string key = entry.key;
    if (!std::holds_alternative<Histogram>(entry.value) &&
        column_of_.emplace(key, columns_.size()).second) {
      columns_.push_back(key);
    }
  }
  if (columns_.size() == before) {
    return;
  }
  try {
    rewrite_header();
  } catch (const std::exception&) {
    // The file has its old header: the next call adds the columns again.
    for (std::size_t i = before; i < columns_.size(); ++i) {
      column_of_.erase(columns_[i]);
    }
    columns_.resize(before);
    throw;
  }
}

void CsvTracker::rewrite_header() {
  file_.flush();
  const std::string names = header();
  if (names.size() == header_bytes_) {
    return;
  }
  {
    const MappedFile old(file_.path(), MappedFile::Mode::read_only);
    write_file(file_.path(), str_cat(names, old.text().substr(header_bytes_)));
  }
  file_ = AppendFile(file_.path());
  header_bytes_ = names.size();
}

void CsvTracker::log(const TrackedValues& values) {
  add_columns(values.entries);
  std::vector<std::string> cells;
  cells.push_back(std::to_string(values.step));
  cells.push_back(seconds_text(values.time_us));
  bool has_histogram = false;
  for (const TrackedEntry& entry : values.entries) {
    if (std::holds_alternative<Histogram>(entry.value)) {
      has_histogram = true;
      continue;
    }
    const std::size_t column = column_of_.at(entry.key);
    cells.resize(std::max(cells.size(), column + 1));
    cells[column] = csv_cell(entry.value);
  }
  file_.append(join(cells, ",") + "\n");
  if (has_histogram) {
    throw UnsupportedError("the tracker `csv` does not support histograms");
  }
}

}  // namespace accelerate
