// SPDX-License-Identifier: Apache-2.0
// Writes `Json` as JSON text and CBOR.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "accelerate/error.h"
#include "base/json.h"
#include "base/str_cat.h"
#include "base/utf8.h"

namespace accelerate {
namespace {

class TextWriter {
 public:
  explicit TextWriter(const JsonDumpOptions& options) : options_(options) {}

  void value(const Json& json) {
    switch (json.type()) {
      case Json::Type::null:
        out_ += "null";
        return;
      case Json::Type::boolean:
        out_ += json.as_bool() ? "true" : "false";
        return;
      case Json::Type::integer:
        out_ += std::to_string(json.as_integer());
        return;
      case Json::Type::real:
        real(json.as_double());
        return;
      case Json::Type::string:
        string(json.as_string());
        return;
      case Json::Type::array:
        array(json.as_array());
        return;
      case Json::Type::object:
        object(json.as_object());
        return;
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void real(double number) {
    if (!std::isfinite(number)) {
      non_finite(number);
      return;
    }
    // The shortest text that parses to the same double.
    std::array<char, 32> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    const std::string_view text(buffer.data(), end.ptr);
    out_ += text;
    if (text.find_first_of(".e") == std::string_view::npos) {
      out_ += ".0";
    }
  }

  void non_finite(double number) {
    const char* word = std::isnan(number) ? "NaN"
                       : number > 0       ? "Infinity"
                                          : "-Infinity";
    if (!options_.allow_nan) {
      throw ArgumentError(
          str_cat("JSON cannot represent the number ", word),
          "pass `.allow_nan = true` to write it as Python does");
    }
    out_ += word;
  }

  void string(const std::string& text) {
    out_ += '"';
    for (std::size_t i = 0; i < text.size();) {
      const auto point = decode_utf8(std::string_view(text).substr(i));
      if (!point) {
        throw ArgumentError(str_cat(
            "a JSON string must be UTF-8, but byte ",
            i,
            " of this string (",
            text.size(),
            " bytes) is not"));
      }
      character(point->value, std::string_view(text).substr(i, point->bytes));
      i += point->bytes;
    }
    out_ += '"';
  }

  void character(char32_t point, std::string_view bytes) {
    constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    const auto at = point < 0x80 ? kEscaped.find(static_cast<char>(point))
                                 : std::string_view::npos;
    if (at != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[at];
    } else if (point < 0x20 || point == 0x7f) {
      unit(static_cast<std::uint16_t>(point));
    } else if (point < 0x80 || !options_.ensure_ascii) {
      out_ += bytes;
    } else if (point < 0x10000) {
      unit(static_cast<std::uint16_t>(point));
    } else {
      unit(static_cast<std::uint16_t>(0xd7c0 + (point >> 10)));
      unit(static_cast<std::uint16_t>(0xdc00 + (point & 0x3ff)));
    }
  }

  void unit(std::uint16_t value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) {
      out_ += kDigits[(value >> shift) & 0xf];
    }
  }

  void array(const Json::Array& elements) {
    open('[');
    bool first = true;
    for (const Json& element : elements) {
      separate(first);
      value(element);
    }
    close(']', elements.empty());
  }

  void object(const Json::Object& members) {
    open('{');
    bool first = true;
    for (const auto& [key, member] : members) {
      separate(first);
      string(key);
      out_ += options_.indent < 0 ? ":" : ": ";
      value(member);
    }
    close('}', members.empty());
  }

  void open(char bracket) {
    out_ += bracket;
    ++level_;
  }

  void close(char bracket, bool empty) {
    --level_;
    if (!empty) {
      new_line();
    }
    out_ += bracket;
  }

  void separate(bool& first) {
    if (!first) {
      out_ += ',';
    }
    first = false;
    new_line();
  }

  void new_line() {
    if (options_.indent >= 0) {
      out_ += '\n';
      out_.append(level_ * static_cast<std::size_t>(options_.indent), ' ');
    }
  }

  const JsonDumpOptions& options_;
  std::string out_;
  std::size_t level_ = 0;
};

class CborWriter {
 public:
  void value(const Json& json) {
    switch (json.type()) {
      case Json::Type::null:
        out_.push_back(0xf6);
        return;
      case Json::Type::boolean:
        out_.push_back(json.as_bool() ? 0xf5 : 0xf4);
        return;
      case Json::Type::integer:
        integer(json.as_integer());
        return;
      case Json::Type::real:
        out_.push_back(0xfb);
        big_endian(std::bit_cast<std::uint64_t>(json.as_double()), 8);
        return;
      case Json::Type::string:
        string(json.as_string());
        return;
      case Json::Type::array:
        head(4, json.size());
        for (const Json& element : json.as_array()) {
          value(element);
        }
        return;
      case Json::Type::object:
        head(5, json.size());
        for (const auto& [key, member] : json.as_object()) {
          string(key);
          value(member);
        }
        return;
    }
  }

  std::vector<std::uint8_t> take() { return std::move(out_); }

 private:
  void integer(std::int64_t number) {
    if (number >= 0) {
      head(0, static_cast<std::uint64_t>(number));
    } else {
      head(1, ~static_cast<std::uint64_t>(number));
    }
  }

  void string(const std::string& text) {
    head(3, text.size());
    out_.insert(out_.end(), text.begin(), text.end());
  }

  // Writes a major type and its number, in as few bytes as possible.
  void head(unsigned major, std::uint64_t number) {
    const auto type = static_cast<std::uint8_t>(major << 5);
    if (number < 24) {
      out_.push_back(static_cast<std::uint8_t>(type | number));
    } else if (number <= UINT8_MAX) {
      out_.push_back(type | 24);
      big_endian(number, 1);
    } else if (number <= UINT16_MAX) {
      out_.push_back(type | 25);
      big_endian(number, 2);
    } else if (number <= UINT32_MAX) {
      out_.push_back(type | 26);
      big_endian(number, 4);
    } else {
      out_.push_back(type | 27);
      big_endian(number, 8);
    }
  }

  void big_endian(std::uint64_t number, int bytes) {
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
      out_.push_back(static_cast<std::uint8_t>(number >> shift));
    }
  }

  std::vector<std::uint8_t> out_;
};

}  // namespace

std::string Json::dump(const JsonDumpOptions& options) const {
  TextWriter writer(options);
  writer.value(*this);
  return writer.take();
}

std::vector<std::uint8_t> Json::to_cbor() const {
  CborWriter writer;
  writer.value(*this);
  return writer.take();
}

}  // namespace accelerate
