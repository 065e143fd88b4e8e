// SPDX-License-Identifier: Apache-2.0
// Parses JSON text and CBOR. No other file includes json.hpp.
#include <algorithm>
#include <iterator>
#include <vector>

#include <nlohmann/json.hpp>

#include "accelerate/error.h"
#include "base/json.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// An iterator that records how far the parser has read, because the parser's
// callbacks do not report their position.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached)
      : at_(at), reached_(reached) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const {
    return at_ == other.at_;
  }
  bool operator!=(const CountingIterator& other) const {
    return at_ != other.at_;
  }

 private:
  const char* at_;
  const char** reached_;
};

// Builds the value from the parser's events and enforces our limits.
class Builder {
 public:
  explicit Builder(std::size_t max_depth) : max_depth_(max_depth) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) {
    return value <= INT64_MAX ? add(static_cast<std::int64_t>(value))
                              : add(static_cast<double>(value));
  }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(std::vector<std::uint8_t>& bytes) {
    return add(Json(std::string(bytes.begin(), bytes.end())));
  }
  bool start_object(std::size_t) { return open(Json(Json::Object())); }
  bool start_array(std::size_t) { return open(Json(Json::Array())); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Json::Object& object = open_.back()->as_object();
    if (object.find(name) != nullptr) {
      return fail(str_cat("the key `", name, "` appears twice"));
    }
    slot_ = &object[name];
    return true;
  }

  bool parse_error(
      std::size_t position,
      const std::string&,
      const nlohmann::detail::exception& exception) {
    error_position = position;
    const std::string text = exception.what();
    // The text is "[json.exception.…] parse error at …: what is wrong".
    const auto colon = text.find(": ");
    return fail(colon == std::string::npos ? text : text.substr(colon + 2));
  }

  Json result;
  std::string error;
  std::size_t error_position = 0;

 private:
  bool fail(std::string text) {
    error = std::move(text);
    return false;
  }

  Json* insert(Json value) {
    if (open_.empty()) {
      result = std::move(value);
      return &result;
    }
    if (open_.back()->is_object()) {
      *slot_ = std::move(value);
      return slot_;
    }
    open_.back()->push_back(std::move(value));
    return &open_.back()->as_array().back();
  }

  bool add(Json value) {
    insert(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() >= max_depth_) {
      return fail(str_cat("nested deeper than ", max_depth_, " levels"));
    }
    open_.push_back(insert(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t max_depth_;
  // Pointers stay valid: only the innermost container grows.
  std::vector<Json*> open_;
  Json* slot_ = nullptr;
};

void check_size(std::size_t size, const JsonParseOptions& options) {
  if (size > options.max_bytes) {
    throw FormatError(str_cat(
        options.source,
        " is ",
        size,
        " bytes, more than the ",
        options.max_bytes,
        " allowed"));
  }
}

}  // namespace

Json Json::parse(std::string_view text, const JsonParseOptions& options) {
  check_size(text.size(), options);
  const char* reached = text.data();
  Builder builder(options.max_depth);
  const bool done = nlohmann::json::sax_parse(
      CountingIterator(text.data(), &reached),
      CountingIterator(text.data() + text.size(), &reached),
      &builder);
  if (done) {
    return std::move(builder.result);
  }
  std::size_t offset = static_cast<std::size_t>(reached - text.data());
  if (builder.error_position != 0) {
    offset = builder.error_position - 1;
  }
  if (options.byte_offset) {
    throw FormatError(str_cat(
        options.source,
        ": byte ",
        *options.byte_offset + offset,
        ": ",
        builder.error));
  }
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? offset + 1 : offset - newline;
  throw FormatError(
      str_cat(options.source, ":", line, ":", column, ": ", builder.error));
}

Json Json::from_cbor(
    std::span<const std::uint8_t> bytes, const JsonParseOptions& options) {
  check_size(bytes.size(), options);
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  const char* reached = begin;
  Builder builder(options.max_depth);
  const bool done = nlohmann::json::sax_parse(
      CountingIterator(begin, &reached),
      CountingIterator(begin + bytes.size(), &reached),
      &builder,
      nlohmann::json::input_format_t::cbor);
  if (done) {
    return std::move(builder.result);
  }
  throw FormatError(
      str_cat(options.source, ": byte ", reached - begin, ": ", builder.error));
}

}  // namespace accelerate
