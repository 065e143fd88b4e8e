// SPDX-License-Identifier: Apache-2.0
#include "datasets/row_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::MappedFile;
using accelerate::str_cat;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "accrows1";
constexpr std::size_t kTail = 24;  // Two numbers and `kMagic`.

template <typename Number>
void append_number(std::string& bytes, Number number) {
  char raw[sizeof(Number)];
  std::memcpy(raw, &number, sizeof(Number));
  bytes.append(raw, sizeof(Number));
}

/// Reads the values in a row. Never reads past the end of the row.
class Cursor {
 public:
  Cursor(std::string_view bytes, const std::string& source, std::size_t offset)
      : bytes_(bytes), source_(source), offset_(offset) {}

  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof(Number)).data(), sizeof(Number));
    return value;
  }

  std::string_view take(std::size_t size) {
    if (size > bytes_.size() - position_) {
      throw FormatError(
          str_cat(
              source_,
              ": byte ",
              offset_ + position_,
              ": the row ends unexpectedly"),
          "remove the file; it will be written again");
    }
    const auto taken = bytes_.substr(position_, size);
    position_ += size;
    return taken;
  }

  template <typename Number>
  std::vector<Number> numbers() {
    const auto count = number<std::uint32_t>();
    const auto raw = take(count * sizeof(Number));
    std::vector<Number> list(count);
    if (count > 0) {  // The data pointer of an empty list may be null.
      std::memcpy(list.data(), raw.data(), raw.size());
    }
    return list;
  }

  std::string string() { return std::string(take(number<std::uint32_t>())); }

  Value value() {
    switch (number<std::uint8_t>()) {
      case 0:
        return Value();
      case 1:
        return number<std::uint8_t>() != 0;
      case 2:
        return number<std::int64_t>();
      case 3:
        return number<double>();
      case 4:
        return string();
      case 5:
        return numbers<std::int64_t>();
      case 6:
        return numbers<double>();
      case 7:
        return strings();
      default:
        throw FormatError(
            str_cat(
                source_,
                ": byte ",
                offset_ + position_ - 1,
                ": unknown kind of value"),
            "remove the file; it will be written again");
    }
  }

 private:
  std::vector<std::string> strings() {
    std::vector<std::string> list;
    for (auto left = number<std::uint32_t>(); left > 0; --left) {
      list.push_back(string());
    }
    return list;
  }

  std::string_view bytes_;
  const std::string& source_;
  std::size_t offset_;
  std::size_t position_ = 0;
};

class RowFileTable : public Table {
 public:
  /// `owner` must keep `text` alive.
  RowFileTable(
      std::shared_ptr<const void> owner,
      std::string_view text,
      std::string source)
      : owner_(std::move(owner)), text_(text), source_(std::move(source)) {
    if (text.size() < kMagic.size() + kTail || !text.starts_with(kMagic) ||
        !text.ends_with(kMagic)) {
      fail(0, "not a row file from `Dataset::map`");
    }
    const std::size_t tail = text.size() - kTail;
    std::uint64_t json_size = number_at(tail);
    std::uint64_t rows = number_at(tail + 8);
    // The index has one more entry than there are rows.
    const std::size_t most = tail - kMagic.size();
    if (json_size > most || rows >= (most - json_size) / 8) {
      fail(tail, "more rows than the file can hold");
    }
    rows_ = static_cast<std::int64_t>(rows);
    const std::size_t json = tail - json_size;
    index_ = json - (rows + 1) * 8;
    read_columns(text.substr(json, json_size));
  }

  std::int64_t rows() const override { return rows_; }
  const std::vector<Column>& columns() const override { return columns_; }

  std::vector<Value> read(std::int64_t row) const override {
    const std::size_t entry = index_ + static_cast<std::size_t>(row) * 8;
    const auto begin = number_at(entry);
    const auto end = number_at(entry + 8);
    if (begin > end || end > index_) {
      fail(entry, "a row is outside the file");
    }
    Cursor cursor(text_.substr(begin, end - begin), source_, begin);
    std::vector<Value> values;
    values.reserve(columns_.size());
    for (const Column& column : columns_) {
      values.push_back(as_type(cursor.value(), column.type));
    }
    return values;
  }

  std::string fingerprint() const override {
    std::call_once(hashed_, [&] { hash_ = accelerate::sha256_hex(text_); });
    return hash_;
  }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const {
    throw FormatError(
        str_cat(source_, ": byte ", offset, ": ", message),
        "remove the file; it will be written again");
  }

  std::uint64_t number_at(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, text_.data() + offset, sizeof(value));
    return value;
  }

  void read_columns(std::string_view text) {
    const Json json = Json::parse(text, {.source = source_});
    for (const Json& column : json.as_array()) {
      const auto type = column.at("type").as_integer();
      if (type < 0 || type > static_cast<int>(ColumnType::reals)) {
        fail(
            index_ + (static_cast<std::size_t>(rows_) + 1) * 8,
            str_cat(
                "the column `",
                column.at("name").as_string(),
                "` has the type ",
                type,
                ", which this version does not know"));
      }
      columns_.push_back(
          {column.at("name").as_string(), static_cast<ColumnType>(type)});
    }
  }

  std::shared_ptr<const void> owner_;
  std::string_view text_;
  std::string source_;
  std::vector<Column> columns_;
  std::int64_t rows_ = 0;
  std::size_t index_ = 0;
  mutable std::once_flag hashed_;
  mutable std::string hash_;
};

TablePointer table_of(MappedFile file, const std::string& source) {
  const auto owner = std::make_shared<const MappedFile>(std::move(file));
  return std::make_shared<RowFileTable>(owner, owner->text(), source);
}

std::uint32_t checked_length(std::size_t size) {
  if (size > UINT32_MAX) {
    throw accelerate::ArgumentError(
        str_cat("a value has ", size, " elements; the maximum is 2^32 - 1"));
  }
  return static_cast<std::uint32_t>(size);
}

struct Appender {
  std::string& bytes;

  void operator()(std::monostate) const {}
  void operator()(bool value) const {
    append_number(bytes, static_cast<std::uint8_t>(value));
  }
  void operator()(std::int64_t value) const { append_number(bytes, value); }
  void operator()(double value) const { append_number(bytes, value); }
  void operator()(const std::string& value) const {
    append_number(bytes, checked_length(value.size()));
    bytes += value;
  }
  template <typename T>
  void operator()(const std::vector<T>& list) const {
    append_number(bytes, checked_length(list.size()));
    if constexpr (std::is_arithmetic_v<T>) {
      bytes.append(
          reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
    } else {
      for (const T& element : list) {
        (*this)(element);
      }
    }
  }
};

}  // namespace

void append_value(std::string& bytes, const Value& value) {
  append_number(bytes, static_cast<std::uint8_t>(value.index()));
  std::visit(Appender{bytes}, value);
}

RowFileWriter::RowFileWriter(
    std::filesystem::path folder,
    std::optional<std::filesystem::path> name,
    RowFileLimits limits)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      limits_(std::move(limits)),
      memory_(kMagic),
      offsets_{kMagic.size()} {
}

RowFileWriter::~RowFileWriter() {
  remove_file();
}

void RowFileWriter::remove_file() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    temporary_.clear();
  }
  fd_.reset();
}

void RowFileWriter::append(
    const std::string& bytes, const std::vector<std::size_t>& sizes) {
  add(bytes);
  for (const std::size_t size : sizes) {
    offsets_.push_back(offsets_.back() + size);
  }
  if (!fd_ && file_problem_.empty() && memory_.size() > limits_.memory_bytes) {
    move_to_file();
  }
}

void RowFileWriter::add(std::string_view bytes) {
  if (fd_) {
    write(bytes);
  } else {
    reserve_memory(memory_.size() + bytes.size());
    memory_ += bytes;
  }
}

void RowFileWriter::reserve_memory(std::size_t size) {
  if (size <= memory_.capacity()) {
    return;
  }
  const std::size_t capacity = std::max(size, 2 * memory_.capacity());
  if (!file_problem_.empty() && capacity > limits_.available()) {
    throw accelerate::IoError(
        str_cat(
            "the result of `map` does not fit in memory, and it cannot be "
            "written to a file: ",
            file_problem_),
        "set `cache_dir`, or the environment variable HF_DATASETS_CACHE, to a "
        "writable folder");
  }
  memory_.reserve(capacity);
}

void RowFileWriter::move_to_file() {
  try {
    open_file();
    write(memory_);
  } catch (const accelerate::IoError& error) {
    remove_file();
    file_problem_ = error.what();
    return;
  }
  memory_ = {};
}

// A named file has the permissions that the umask allows. A temporary file is
// private and is unlinked immediately, so that it disappears with the process.
void RowFileWriter::open_file() {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    accelerate::throw_errno("create", folder_, error.value());
  }
  if (!name_) {
    std::string path = (folder_ / "rows.XXXXXX").string();
    fd_.reset(::mkostemp(path.data(), O_CLOEXEC));
    if (fd_) {
      ::unlink(path.c_str());
    }
  }
  constexpr int kAttempts = 100;  // A killed process may have left its file.
  for (int attempt = 0; name_ && !fd_ && attempt < kAttempts; ++attempt) {
    const std::string path =
        str_cat(name_->string(), ".", ::getpid(), "-", attempt);
    fd_.reset(::open(
        path.c_str(),
        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
        0666));
    if (fd_) {
      temporary_ = path;
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (!fd_) {
    accelerate::throw_errno("write in", folder_, errno);
  }
}

void RowFileWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      accelerate::throw_errno("write in", folder_, errno);
    }
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

TablePointer RowFileWriter::finish(const std::vector<Column>& columns) {
  Json::Array list;
  for (const Column& column : columns) {
    list.push_back(Json::object(
        {{"name", column.name}, {"type", static_cast<int>(column.type)}}));
  }
  const std::string json = Json(std::move(list)).dump();
  std::string end(
      reinterpret_cast<const char*>(offsets_.data()), offsets_.size() * 8);
  end += json;
  append_number(end, std::uint64_t{json.size()});
  append_number(end, std::uint64_t{offsets_.size() - 1});
  end += kMagic;
  add(end);

  if (name_ && !fd_ && file_problem_.empty()) {
    move_to_file();
  }
  if (fd_) {
    return table_in_file();
  }
  const auto owner = std::make_shared<const std::string>(std::move(memory_));
  return std::make_shared<RowFileTable>(owner, *owner, "the result of `map`");
}

TablePointer RowFileWriter::table_in_file() {
  const std::string source =
      name_ ? name_->string() : (folder_ / "rows").string();
  auto table = table_of(
      MappedFile(fd_.get(), source, MappedFile::Mode::read_only), source);
  if (name_) {
    if (::fsync(fd_.get()) != 0 ||
        ::rename(temporary_.c_str(), name_->c_str()) != 0) {
      accelerate::throw_errno("write", *name_, errno);
    }
    temporary_.clear();
  }
  return table;
}

TablePointer open_row_file(const std::filesystem::path& path) {
  return table_of(MappedFile(path, MappedFile::Mode::read_only), path.string());
}

}  // namespace transformers::datasets
