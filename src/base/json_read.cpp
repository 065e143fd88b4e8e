// SPDX-License-Identifier: Apache-2.0
// Parses JSON text and CBOR. No other file includes json.hpp.
#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "accelerate/error.h"
#include "base/json.h"
#include "base/str_cat.h"
#include "base/text.h"

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

// A number that standard JSON cannot represent, such as `NaN`.
struct SpecialNumber {
  std::size_t end;  // The offset of the end of the word.
  double value;
};

// Text in which ordinary numbers of the same length replace `NaN` and
// `Infinity`, because the parser does not support these words.
struct OrdinaryText {
  std::string text;
  std::vector<SpecialNumber> special;  // In the order of the text.
};

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Returns whether a value may begin after `before` and end before `after`.
bool is_whole_word(std::string_view before, std::string_view after) {
  const auto is_one_of = [](char c, std::string_view characters) {
    return is_blank(c) || characters.find(c) != std::string_view::npos;
  };
  if (before.ends_with('-')) {
    before.remove_suffix(1);
  }
  return (before.empty() || is_one_of(before.back(), "[:,")) &&
         (after.empty() || is_one_of(after.front(), "]},"));
}

OrdinaryText replace_special_numbers(std::string_view text) {
  OrdinaryText result{std::string(text), {}};
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      in_string = text[i] != '"';
      i += text[i] == '\\' ? 1 : 0;
      continue;
    }
    in_string = text[i] == '"';
    const std::string_view rest = text.substr(i);
    const std::string_view word = rest.starts_with("NaN")        ? "NaN"
                                  : rest.starts_with("Infinity") ? "Infinity"
                                                                 : "";
    if (word.empty() ||
        !is_whole_word(text.substr(0, i), rest.substr(word.size()))) {
      continue;
    }
    const bool negative = i > 0 && text[i - 1] == '-';
    if (negative && word == "NaN") {
      continue;
    }
    result.text.replace(i, word.size(), word == "NaN" ? "0.0" : "0.000000");
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    result.special.push_back(
        {i + word.size(),
         word == "NaN" ? std::numeric_limits<double>::quiet_NaN()
         : negative    ? -kInfinity
                       : kInfinity});
    i += word.size() - 1;
  }
  return result;
}

// Builds the value from the parser's events and enforces the limits.
class Builder {
 public:
  explicit Builder(const JsonParseOptions& options)
      : max_depth_(options.max_depth), max_array_(options.max_array) {}

  // The text starts at `begin`. `*reached` must point to the end of the part
  // that the parser has read so far.
  void set_special_numbers(
      std::span<const SpecialNumber> numbers,
      const char* begin,
      const char* const* reached) {
    special_ = numbers;
    begin_ = begin;
    reached_ = reached;
  }

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) {
    return value <= INT64_MAX ? add(static_cast<std::int64_t>(value))
                              : add(static_cast<double>(value));
  }
  bool number_float(double value, const std::string&) {
    if (!special_.empty() && *reached_ >= begin_ + special_.front().end) {
      value = special_.front().value;
      special_ = special_.subspan(1);
    }
    return add(value);
  }
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
  bool fail(const std::string& text) {
    error = printable(text);  // The text may quote the input.
    return false;
  }

  // Returns null and sets `error` if an array would have too many elements.
  Json* insert(Json value) {
    if (open_.empty()) {
      result = std::move(value);
      return &result;
    }
    if (open_.back()->is_object()) {
      *slot_ = std::move(value);
      return slot_;
    }
    Json::Array& array = open_.back()->as_array();
    if (array.size() >= max_array_) {
      fail(str_cat("an array has more than ", max_array_, " elements"));
      return nullptr;
    }
    array.push_back(std::move(value));
    return &array.back();
  }

  bool add(Json value) { return insert(std::move(value)) != nullptr; }

  bool open(Json value) {
    if (open_.size() >= max_depth_) {
      return fail(str_cat("nested more than ", max_depth_, " levels deep"));
    }
    Json* inserted = insert(std::move(value));
    if (inserted == nullptr) {
      return false;
    }
    open_.push_back(inserted);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t max_depth_;
  std::size_t max_array_;
  // Pointers stay valid: only the innermost container grows.
  std::vector<Json*> open_;
  Json* slot_ = nullptr;
  std::span<const SpecialNumber> special_;
  const char* begin_ = nullptr;
  const char* const* reached_ = nullptr;
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
  OrdinaryText ordinary;
  if (options.allow_nan && (text.find("NaN") != std::string_view::npos ||
                            text.find("Infinity") != std::string_view::npos)) {
    ordinary = replace_special_numbers(text);
    text = ordinary.text;
  }
  const char* reached = text.data();
  Builder builder(options);
  builder.set_special_numbers(ordinary.special, text.data(), &reached);
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
  Builder builder(options);
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
