// SPDX-License-Identifier: Apache-2.0
#include "transformers/datasets/row_file.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "transformers/datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::MappedFile;
using accelerate::str_cat;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "accrows1";
constexpr std::size_t kTail = 24;  // Two numbers and the magic.

template <typename Number>
void append_number(std::string& bytes, Number number) {
  char raw[sizeof(Number)];
  std::memcpy(raw, &number, sizeof(Number));
  bytes.append(raw, sizeof(Number));
}

/// Reads the bytes of a row, and never past their end.
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
  RowFileTable(MappedFile file, std::string source)
      : file_(std::move(file)), source_(std::move(source)) {
    const std::string_view text = file_.text();
    if (text.size() < kMagic.size() + kTail || !text.starts_with(kMagic) ||
        !text.ends_with(kMagic)) {
      fail(0, "not a row file from `Dataset::map`");
    }
    const std::size_t tail = text.size() - kTail;
    std::uint64_t json_size = number_at(tail);
    std::uint64_t rows = number_at(tail + 8);
    if (json_size > tail || rows > (tail - json_size) / 8) {
      fail(tail, "more rows than the file can hold");
    }
    rows_ = static_cast<std::int64_t>(rows);
    const std::size_t json = tail - json_size;
    const std::size_t index_size = (rows + 1) * 8;
    if (index_size > json - kMagic.size()) {
      fail(tail, "more rows than the file can hold");
    }
    index_ = json - index_size;
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
    Cursor cursor(file_.text().substr(begin, end - begin), source_, begin);
    std::vector<Value> values;
    values.reserve(columns_.size());
    for (const Column& column : columns_) {
      values.push_back(as_type(cursor.value(), column.type));
    }
    return values;
  }

  std::string fingerprint() const override {
    std::call_once(
        hashed_, [&] { hash_ = accelerate::sha256_hex(file_.text()); });
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
    std::memcpy(&value, file_.text().data() + offset, sizeof(value));
    return value;
  }

  void read_columns(std::string_view text) {
    const Json json = Json::parse(text, {.source = source_});
    for (const Json& column : json.as_array()) {
      const auto type = column.at("type").as_integer();
      if (type < 0 || type > static_cast<int>(ColumnType::reals)) {
        fail(0, "a column has an unknown type");
      }
      columns_.push_back(
          {column.at("name").as_string(), static_cast<ColumnType>(type)});
    }
  }

  MappedFile file_;
  std::string source_;
  std::vector<Column> columns_;
  std::int64_t rows_ = 0;
  std::size_t index_ = 0;
  mutable std::once_flag hashed_;
  mutable std::string hash_;
};

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

RowFileWriter::RowFileWriter(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    accelerate::throw_errno("create", folder, error.value());
  }
  std::string name = (folder / "rows.XXXXXX").string();
  fd_.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd_) {
    accelerate::throw_errno("write in", folder, errno);
  }
  temporary_ = name;
  write(std::string(kMagic));
  offsets_.push_back(kMagic.size());
}

RowFileWriter::~RowFileWriter() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void RowFileWriter::write(const std::string& bytes) {
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_.get(), left.data(), left.size());
    if (written < 0 && errno != EINTR) {
      accelerate::throw_errno("write", temporary_, errno);
    }
    if (written > 0) {
      left.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

void RowFileWriter::append(
    const std::string& bytes, const std::vector<std::size_t>& sizes) {
  write(bytes);
  for (const std::size_t size : sizes) {
    offsets_.push_back(offsets_.back() + size);
  }
}

TablePointer RowFileWriter::finish(
    const std::vector<Column>& columns,
    const std::optional<std::filesystem::path>& name) {
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
  write(end);

  const std::string source = name ? name->string() : temporary_.string();
  auto table = std::make_shared<RowFileTable>(
      MappedFile(fd_.get(), source, MappedFile::Mode::read_only), source);
  if (name) {
    if (::fchmod(fd_.get(), 0644) != 0 || ::fsync(fd_.get()) != 0 ||
        ::rename(temporary_.c_str(), name->c_str()) != 0) {
      accelerate::throw_errno("write", *name, errno);
    }
    temporary_.clear();
  }
  return table;
}

TablePointer open_row_file(const std::filesystem::path& path) {
  return std::make_shared<RowFileTable>(
      MappedFile(path, MappedFile::Mode::read_only), path.string());
}

}  // namespace transformers::datasets
