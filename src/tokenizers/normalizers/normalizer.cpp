// SPDX-License-Identifier: Apache-2.0
// The small normalizers, and the factory for all normalizers.
#include "tokenizers/normalizers/normalizer.h"

#include <utility>

#include "tokenizers/text/byte_level.h"
#include "tokenizers/text/decomposition.h"
#include "tokenizers/text/rewrite.h"

namespace transformers::tokenizers {

void prepend(AlignedText& text, std::string_view prefix) {
  if (text.text.empty()) {
    return;
  }
  Rewriter out(text);
  out.put(prefix, 0);
  out.keep(0, text.text.size());
  out.finish();
}

namespace {

// A normalizer that calls one function.
template <typename Function>
class FunctionNormalizer : public Normalizer {
 public:
  explicit FunctionNormalizer(Function function)
      : function_(std::move(function)) {}
  void normalize(AlignedText& text) const override { function_(text); }

 private:
  Function function_;
};

template <typename Function>
std::unique_ptr<Normalizer> normalizer_from(Function function) {
  return std::make_unique<FunctionNormalizer<Function>>(std::move(function));
}

std::unique_ptr<Normalizer> make_bert(const JsonNode& node) {
  BertNormalizerOptions options;
  options.clean_text = node.boolean("clean_text");
  options.handle_chinese_chars = node.boolean("handle_chinese_chars");
  options.lowercase = node.boolean("lowercase");
  // By default, accents are removed if the text is lower-cased.
  options.strip_accents = node.boolean("strip_accents", options.lowercase);
  return std::make_unique<BertNormalizer>(options);
}

std::unique_ptr<Normalizer> make_form(NormalForm form) {
  return normalizer_from(
      [form](AlignedText& text) { tokenizers::normalize(text, form); });
}

void strip(AlignedText& text, bool left, bool right) {
  std::string_view view = text.text;
  std::size_t begin = 0;
  std::size_t end = view.size();
  std::size_t length = 0;
  while (left && begin < end &&
         is_a(read_character(view.data() + begin, length), kSpace)) {
    begin += length;
  }
  while (right && begin < end &&
         is_a(last_character(view.substr(0, end)), kSpace)) {
    do {
      --end;
    } while ((static_cast<unsigned char>(view[end]) & 0xC0) == 0x80);
  }
  Rewriter out(text);
  out.keep(begin, end);
  out.finish();
}

bool is_nmt_control(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) ||
         c == 0x7F || c == 0x8F || c == 0x9F;
}

bool is_nmt_space(char32_t c) {
  return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
         c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

void nmt(AlignedText& text) {
  rewrite_characters(text, [](Rewriter& out, char32_t c, Span at) {
    if (is_nmt_space(c)) {
      out.put(' ', at.begin);
    } else if (!is_nmt_control(c)) {
      out.keep(at.begin, at.end);
    }
  });
}

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(const JsonNode& node) {
    for (const JsonNode& part : node.at("normalizers").elements()) {
      parts_.push_back(make_normalizer(part));
    }
  }
  void normalize(AlignedText& text) const override {
    for (const auto& part : parts_) {
      part->normalize(text);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::unique_ptr<Normalizer> make_strip(const JsonNode& node) {
  const bool left = node.boolean("strip_left");
  const bool right = node.boolean("strip_right");
  return normalizer_from([=](AlignedText& text) { strip(text, left, right); });
}

std::unique_ptr<Normalizer> make_prepend(const JsonNode& node) {
  return normalizer_from([prefix = node.string("prepend")](AlignedText& text) {
    prepend(text, prefix);
  });
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonNode& node) {
  using Make = std::unique_ptr<Normalizer> (*)(const JsonNode&);
  static const std::vector<std::pair<std::string, Make>> factories = {
      {"BertNormalizer", make_bert},
      {"ByteLevel",
       [](const JsonNode&) {
         return normalizer_from([](AlignedText& t) { bytes_to_unicode(t); });
       }},
      {"Lowercase", [](const JsonNode&) { return normalizer_from(lowercase); }},
      {"NFC", [](const JsonNode&) { return make_form(NormalForm::nfc); }},
      {"NFD", [](const JsonNode&) { return make_form(NormalForm::nfd); }},
      {"NFKC", [](const JsonNode&) { return make_form(NormalForm::nfkc); }},
      {"NFKD", [](const JsonNode&) { return make_form(NormalForm::nfkd); }},
      {"Nmt", [](const JsonNode&) { return normalizer_from(nmt); }},
      {"Precompiled", make_precompiled},
      {"Prepend", make_prepend},
      {"Replace", make_replace},
      {"Sequence",
       [](const JsonNode& n) -> std::unique_ptr<Normalizer> {
         return std::make_unique<SequenceNormalizer>(n);
       }},
      {"Strip", make_strip},
      {"StripAccents",
       [](const JsonNode&) {
         return normalizer_from(
             [](AlignedText& text) { drop(text, kCombiningMark); });
       }},
  };
  const std::string type = node.type();
  std::vector<std::string> names;
  for (const auto& [name, make] : factories) {
    if (name == type) {
      return make(node);
    }
    names.push_back(name);
  }
  node.at("type").fail_unknown("normalizer", type, names);
}

}  // namespace transformers::tokenizers
