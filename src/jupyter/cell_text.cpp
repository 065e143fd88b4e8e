// SPDX-License-Identifier: Apache-2.0
#include "jupyter/cell_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace accelerate::jupyter {
namespace {

// Scans C++ text and separates code from comments, strings and preprocessor
// lines.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void scan() {
    while (at_ < text_.size()) {
      step();
    }
  }

  int depth = 0;
  bool has_extra_closing = false;
  bool is_open = false;  // A comment or string is not closed.
  // The start of the last statement at depth 0, after `;`, `}` or a
  // preprocessor line.
  std::size_t last_statement = 0;
  // The position after the last character of code.
  std::size_t end_of_code = 0;

 private:
  bool starts(std::string_view word) const {
    return text_.substr(at_).starts_with(word);
  }

  void step() {
    const char c = text_[at_];
    if (starts("//")) {
      skip_to("\n", false);
    } else if (starts("/*")) {
      skip_to("*/", true);
    } else if (starts("R\"") && may_begin_literal()) {
      skip_raw_string();
    } else if (c == '"' || (c == '\'' && may_begin_literal())) {
      skip_quoted(c);
    } else if (c == '#' && begins_line()) {
      skip_directive();
    } else {
      take(c);
    }
  }

  // Whether the text before `at_` is neither a name nor a number, except the
  // prefix of a literal. The quote in `1'000` then does not start a character
  // literal, and `R"` in `nameR"` does not start a raw string, but `LR"` does.
  bool may_begin_literal() const {
    std::size_t begin = at_;
    while (begin > 0 && is_in_name(text_[begin - 1])) {
      --begin;
    }
    const std::string_view before = text_.substr(begin, at_ - begin);
    return before.empty() || before == "L" || before == "u" || before == "U" ||
           before == "u8";
  }

  static bool is_in_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }

  bool begins_line() const {
    const auto line = text_.substr(0, at_).rfind('\n');
    const auto begin = line == std::string_view::npos ? 0 : line + 1;
    return text_.substr(begin, at_ - begin).find_first_not_of(" \t") ==
           std::string_view::npos;
  }

  void take(char c) {
    ++at_;
    if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      has_extra_closing = has_extra_closing || --depth < 0;
    }
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      end_of_code = at_;
    }
    if (depth == 0 && (c == ';' || (c == '}' && !goes_on()))) {
      last_statement = at_;
    }
  }

  // Whether the expression continues after `}`, as in
  // `std::vector<int>{1, 2}.size()`.
  bool goes_on() const {
    constexpr std::string_view kOperators = ".,)(-+*/%<>=&|^?:[";
    return at_ < text_.size() &&
           kOperators.find(text_[at_]) != std::string_view::npos;
  }

  void skip_to(std::string_view word, bool must_end) {
    const auto found = text_.find(word, at_ + 2);
    is_open = must_end && found == std::string_view::npos;
    at_ = std::min(
        found == std::string_view::npos ? text_.size() : found + word.size(),
        text_.size());
  }

  void skip_quoted(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') {
        end_of_code = at_;
        return;  // The compiler reports the open quote.
      }
      at_ += text_[at_] == '\\' ? 1 : 0;
    }
    at_ = std::min(at_ + 1, text_.size());
    end_of_code = at_;
  }

  void skip_raw_string() {
    const auto open = text_.find('(', at_);
    if (open == std::string_view::npos) {
      is_open = true;
      at_ = text_.size();
      return;
    }
    std::string end = ")";
    end += text_.substr(at_ + 2, open - at_ - 2);
    end += '"';
    at_ = open;
    skip_to(end, true);
    end_of_code = at_;
  }

  void skip_directive() {
    auto end = text_.find('\n', at_);
    while (end != std::string_view::npos && text_[end - 1] == '\\') {
      end = text_.find('\n', end + 1);
    }
    at_ = end == std::string_view::npos ? text_.size() : end;
    end_of_code = at_;
    last_statement = depth == 0 ? at_ : last_statement;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

Completeness completeness(const std::string& code) {
  Scanner scanner(code);
  scanner.scan();
  if (scanner.has_extra_closing) {
    return Completeness::invalid;
  }
  const bool goes_on =
      scanner.end_of_code > 0 && code[scanner.end_of_code - 1] == '\\';
  return scanner.depth > 0 || scanner.is_open || goes_on
             ? Completeness::incomplete
             : Completeness::complete;
}

std::string with_display(const std::string& code, const std::string& name) {
  Scanner scanner(code);
  scanner.scan();
  const auto begin = code.find_first_not_of(" \t\r\n", scanner.last_statement);
  if (scanner.depth != 0 || begin == std::string::npos ||
      begin >= scanner.end_of_code) {
    return code;
  }
  // Keeps the line and column of the expression for the compiler's messages.
  const std::string before = code.substr(0, begin);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto column = before.size() - (before.rfind('\n') + 1);
  return before + "::accelerate_notebook::display((\n#line " +
         std::to_string(line) + " \"" + name + "\"\n" +
         std::string(column, ' ') +
         code.substr(begin, scanner.end_of_code - begin) + "\n));" +
         code.substr(scanner.end_of_code);
}

std::size_t byte_position(const std::string& text, std::size_t characters) {
  std::size_t at = 0;
  while (at < text.size() && characters > 0) {
    ++at;
    while (at < text.size() && is_continuation(text[at])) {
      ++at;
    }
    --characters;
  }
  return at;
}

std::size_t character_position(const std::string& text, std::size_t bytes) {
  const auto end =
      text.begin() + static_cast<std::ptrdiff_t>(std::min(bytes, text.size()));
  return static_cast<std::size_t>(std::count_if(
      text.begin(), end, [](char c) { return !is_continuation(c); }));
}

}  // namespace accelerate::jupyter
