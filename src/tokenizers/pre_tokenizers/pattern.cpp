// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/pre_tokenizers/pattern.h"

#include "tokenizers/pre_tokenizers/scanners.h"

namespace transformers::tokenizers {

std::size_t llama_contraction(std::string_view text, std::size_t at) {
  const auto lower = [&](std::size_t i) -> unsigned char {
    const unsigned char c =
        i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
    return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c + 32) : c;
  };
  const unsigned char a = lower(at + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') {
    return 2;
  }
  // If case is ignored, the long s (U+017F) equals s.
  if (a == 0xC5 && lower(at + 2) == 0xBF) {
    return 3;
  }
  const unsigned char b = lower(at + 2);
  const bool has_two_letters =
      ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l');
  return has_two_letters ? 3 : 0;
}

namespace {

class StringPattern : public Pattern {
 public:
  explicit StringPattern(std::string needle) : needle_(std::move(needle)) {}
  void find(std::string_view text, std::vector<Span>& matches) const override {
    if (needle_.empty()) {
      find_empty(text, matches);
      return;
    }
    for (std::size_t at = text.find(needle_); at != std::string_view::npos;
         at = text.find(needle_, at + needle_.size())) {
      matches.push_back(
          {static_cast<std::uint32_t>(at),
           static_cast<std::uint32_t>(at + needle_.size())});
    }
  }

 private:
  // In Python the empty string matches before and after every character.
  static void find_empty(std::string_view text, std::vector<Span>& matches) {
    for (std::size_t at = 0; at < text.size();
         at += utf8_length(static_cast<unsigned char>(text[at]))) {
      const auto begin = static_cast<std::uint32_t>(at);
      matches.push_back({begin, begin});
    }
    const auto end = static_cast<std::uint32_t>(text.size());
    if (end > 0) {
      matches.push_back({end, end});
    }
  }

  std::string needle_;
};

class ScannerPattern : public Pattern {
 public:
  explicit ScannerPattern(Scanner scanner) : scanner_(scanner) {}
  void find(std::string_view text, std::vector<Span>& matches) const override {
    scan(scanner_, text, [&](std::size_t begin, std::size_t end) {
      matches.push_back(
          {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    });
  }

 private:
  Scanner scanner_;
};

}  // namespace

std::unique_ptr<Pattern> make_pattern(const JsonNode& node) {
  if (const auto text = node.find("String")) {
    return std::make_unique<StringPattern>(text->as_string());
  }
  const JsonNode expression = node.at("Regex");
  const Scanner scanner = scanner_for(expression.as_string());
  if (scanner != Scanner::none) {
    return std::make_unique<ScannerPattern>(scanner);
  }
  return make_regex(expression.as_string(), expression);
}

}  // namespace transformers::tokenizers
