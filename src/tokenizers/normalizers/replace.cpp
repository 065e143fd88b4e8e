// SPDX-License-Identifier: Apache-2.0
// `Replace`: replaces every match of a pattern with one text.
#include "tokenizers/normalizers/normalizer.h"
#include "tokenizers/pre_tokenizers/pattern.h"

namespace transformers::tokenizers {
namespace {

class Replace : public Normalizer {
 public:
  explicit Replace(const JsonNode& node)
      : pattern_(make_pattern(node.at("pattern"))),
        content_(node.string("content")) {}

  void normalize(AlignedText& text) const override {
    std::vector<Span> matches;
    pattern_->find(text.text, matches);
    if (matches.empty()) {
      return;
    }
    Rewriter out(text);
    std::size_t at = 0;
    for (const Span& match : matches) {
      out.keep(at, match.begin);
      // The content gets the alignment of the byte before the end of the match,
      // even if the match is empty.
      out.put(content_, std::size_t{match.end} - 1);
      at = match.end;
    }
    out.keep(at, text.text.size());
    out.finish();
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

}  // namespace

std::unique_ptr<Normalizer> make_replace(const JsonNode& node) {
  return std::make_unique<Replace>(node);
}

}  // namespace transformers::tokenizers
