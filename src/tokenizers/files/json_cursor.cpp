// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/files/json_cursor.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tokenizers/text/unicode.h"

namespace transformers::tokenizers {

using accelerate::str_cat;

void JsonCursor::fail(const std::string& message) const {
  const std::string_view before = text_.substr(0, at_);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? at_ + 1 : at_ - newline;
  throw accelerate::FormatError(
      str_cat(source_, ":", line, ":", column, ": ", path_, ": ", message));
}

namespace {

// Calls `madvise` for the pages that are entirely within a text.
void advise(std::string_view text, int advice) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t within =
      reinterpret_cast<std::uintptr_t>(text.data()) % page;
  const std::size_t skipped = (page - within) % page;
  if (skipped < text.size()) {
    ::madvise(
        const_cast<char*>(text.data()) + skipped,
        (text.size() - skipped) / page * page,
        advice);
  }
}

}  // namespace

JsonCursor::JsonCursor(
    std::string_view text, std::string source, std::string path, bool mapped)
    : text_(text),
      source_(std::move(source)),
      path_(std::move(path)),
      mapped_(mapped) {
  if (mapped_) {
    // With huge pages, nothing would be released until the last byte is read.
    advise(text_, MADV_NOHUGEPAGE);
  }
}

void JsonCursor::skip_whitespace() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

void JsonCursor::release_pages() {
  constexpr std::size_t kReleaseBytes = std::size_t{64} * 1024;
  if (!mapped_ || at_ - released_ < kReleaseBytes) {
    return;
  }
  advise(text_.substr(released_, at_ - released_), MADV_DONTNEED);
  released_ = at_;
}

char JsonCursor::peek() {
  skip_whitespace();
  if (at_ >= text_.size()) {
    fail("unexpected end of the text");
  }
  return text_[at_];
}

void JsonCursor::expect(char expected) {
  if (peek() != expected) {
    fail(str_cat("expected `", expected, "`"));
  }
  ++at_;
}

bool JsonCursor::at_container_end(char bracket, bool first) {
  if (peek() == bracket) {
    ++at_;
    return true;
  }
  if (!first) {
    expect(',');
    release_pages();
  }
  return false;
}

void JsonCursor::end() {
  skip_whitespace();
  if (at_ != text_.size()) {
    fail("expected the end of the text");
  }
}

std::uint32_t JsonCursor::hex4() {
  std::uint32_t value = 0;
  if (text_.size() - at_ < 4) {
    fail("incomplete escape sequence");
  }
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
  if (error != std::errc() || end != begin + 4) {
    fail("`\\u` needs four hexadecimal digits");
  }
  at_ += 4;
  return value;
}

void JsonCursor::unescape(std::string& out) {
  if (at_ >= text_.size()) {
    fail("incomplete escape sequence");
  }
  static constexpr std::string_view kFrom = "\"\\/bfnrt";
  static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
  const char c = text_[at_++];
  const std::size_t simple = kFrom.find(c);
  if (simple != std::string_view::npos) {
    out.push_back(kTo[simple]);
    return;
  }
  if (c != 'u') {
    fail("unknown escape sequence");
  }
  std::uint32_t value = hex4();
  if (value >= 0xD800 && value < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") {
      fail("unpaired surrogate");
    }
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) {
      fail("unpaired surrogate");
    }
    value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
  } else if (value >= 0xDC00 && value < 0xE000) {
    fail("unpaired surrogate");
  }
  append_character(out, value);
}

std::string_view JsonCursor::string(std::string& scratch) {
  if (peek() != '"') {
    fail("expected a string");
  }
  const std::size_t begin = ++at_;
  bool escaped = false;
  unsigned char seen = 0;
  for (; at_ < text_.size(); ++at_) {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '"') {
      const std::string_view plain = text_.substr(begin, at_ - begin);
      ++at_;
      const std::string_view result = escaped ? scratch : plain;
      if (seen >= 0x80 && find_invalid_utf8(result) != std::string_view::npos) {
        fail("a string is not UTF-8");
      }
      return result;
    }
    if (c < 0x20) {
      fail("unescaped control character in a string");
    }
    if (c == '\\') {
      if (!escaped) {
        scratch.assign(text_.substr(begin, at_ - begin));
        escaped = true;
      }
      ++at_;
      unescape(scratch);
      --at_;
      continue;
    }
    seen |= c;
    if (escaped) {
      scratch.push_back(static_cast<char>(c));
    }
  }
  fail("unterminated string");
}

std::string_view JsonCursor::digits() {
  peek();
  const std::size_t begin = at_;
  while (at_ < text_.size() &&
         std::string_view("+-0123456789.eE").find(text_[at_]) !=
             std::string_view::npos) {
    ++at_;
  }
  return text_.substr(begin, at_ - begin);
}

std::int64_t JsonCursor::integer() {
  const std::string_view word = digits();
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc() ||
      end != word.data() + word.size()) {
    fail("expected an integer");
  }
  return value;
}

double JsonCursor::number() {
  const std::string_view word = digits();
  double value = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc() ||
      end != word.data() + word.size()) {
    fail("expected a number");
  }
  return value;
}

void JsonCursor::skip_string() {
  ++at_;
  while (at_ < text_.size()) {
    const void* found =
        std::memchr(text_.data() + at_, '"', text_.size() - at_);
    if (found == nullptr) {
      break;
    }
    const std::size_t quote = static_cast<std::size_t>(
        static_cast<const char*>(found) - text_.data());
    std::size_t backslashes = 0;
    while (text_[quote - 1 - backslashes] == '\\') {
      ++backslashes;
    }
    at_ = quote + 1;
    if (backslashes % 2 == 0) {
      return;
    }
  }
  fail("unterminated string");
}

std::string_view JsonCursor::skip() {
  peek();
  const std::size_t begin = at_;
  std::size_t depth = 0;
  skipped_elements_ = 1;
  do {
    const char c = peek();
    release_pages();
    if (c == '"') {
      skip_string();
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at_;
    } else if (c == '}' || c == ']') {
      if (depth == 0) {
        fail("unmatched closing bracket");
      }
      --depth;
      ++at_;
    } else if (c == ',' || c == ':') {
      if (depth == 0) {
        fail("expected a value");
      }
      skipped_elements_ += depth == 1 && c == ',' ? 1 : 0;
      ++at_;
    } else {
      while (at_ < text_.size() &&
             std::string_view(",:]}[{\" \n\r\t").find(text_[at_]) ==
                 std::string_view::npos) {
        ++at_;
      }
    }
  } while (depth > 0);
  return text_.substr(begin, at_ - begin);
}

}  // namespace transformers::tokenizers
