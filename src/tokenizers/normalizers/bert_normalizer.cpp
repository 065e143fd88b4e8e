// SPDX-License-Identifier: Apache-2.0
// BERT's normalizer: cleans text, adds spaces around Chinese characters,
// removes accents and lower-cases.
#include "tokenizers/normalizers/normalizer.h"
#include "tokenizers/text/decomposition.h"
#include "tokenizers/text/rewrite.h"

namespace transformers::tokenizers {
namespace {

void clean(AlignedText& text) {
  rewrite_characters(text, [](Rewriter& out, char32_t c, Span at) {
    const std::uint16_t classes = CharacterTable::get()[c];
    // Tab, line feed and carriage return are kept, as spaces.
    const bool blank = c == '\t' || c == '\n' || c == '\r';
    if ((classes & kControl) != 0 && !blank) {
      return;
    }
    if ((classes & kSpace) != 0) {
      out.put(' ', at.begin);
    } else {
      out.keep(at.begin, at.end);
    }
  });
}

void pad_chinese_characters(AlignedText& text) {
  rewrite_characters(text, [](Rewriter& out, char32_t c, Span at) {
    if (!is_a(c, kCjk)) {
      out.keep(at.begin, at.end);
      return;
    }
    out.put(' ', at.begin);
    out.keep(at.begin, at.end);
    out.put(' ', at.begin);
  });
}

}  // namespace

void lowercase(AlignedText& text) {
  rewrite_characters(text, [](Rewriter& out, char32_t c, Span at) {
    const LowerCase lower = to_lower(c);
    if (lower.first == c) {
      out.keep(at.begin, at.end);
      return;
    }
    out.put(lower.first, at.begin);
    if (lower.second != 0) {
      out.put(lower.second, at.begin);
    }
  });
}

void drop(AlignedText& text, std::uint16_t classes) {
  if (is_ascii(text.text)) {
    return;
  }
  rewrite_characters(text, [=](Rewriter& out, char32_t c, Span at) {
    if (!is_a(c, classes)) {
      out.keep(at.begin, at.end);
    }
  });
}

void BertNormalizer::normalize(AlignedText& text) const {
  if (options_.clean_text) {
    clean(text);
  }
  if (options_.handle_chinese_chars && !is_ascii(text.text)) {
    pad_chinese_characters(text);
  }
  if (options_.strip_accents) {
    tokenizers::normalize(text, NormalForm::nfd);
    drop(text, kNonspacingMark);
  }
  if (options_.lowercase) {
    lowercase(text);
  }
}

}  // namespace transformers::tokenizers
