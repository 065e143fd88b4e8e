// SPDX-License-Identifier: Apache-2.0
// SentencePiece's way with spaces: a visible mark in place of each.
#include "transformers/tokenizers/metaspace.h"

#include "transformers/tokenizers/splitting.h"

namespace transformers::tokenizers {

MetaspaceOptions read_metaspace(const JsonNode& node) {
  MetaspaceOptions options;
  const JsonNode replacement = node.at("replacement");
  options.replacement = replacement.as_string();
  if (count_characters(options.replacement) != 1) {
    replacement.fail("expected one character");
  }
  const bool add = node.boolean("add_prefix_space", true);
  const auto scheme = node.find("prepend_scheme");
  const std::string word = scheme ? scheme->as_string()
                           : add  ? "always"
                                  : "never";
  if (word == "always") {
    options.scheme = PrependScheme::always;
  } else if (word == "first") {
    options.scheme = PrependScheme::first;
  } else if (word == "never") {
    options.scheme = PrependScheme::never;
  } else {
    scheme->fail_unknown("prepend scheme", word, {"always", "first", "never"});
  }
  options.split = node.boolean("split", true);
  return options;
}

namespace {

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonNode& node) : options_(read_metaspace(node)) {
    std::size_t length = 0;
    mark_ = read_character(options_.replacement.data(), length);
  }

  void split(Pieces& pieces) const override {
    replace_spaces(pieces);
    if (options_.split) {
      split_at_characters(
          pieces, SplitBehavior::merged_with_next, [&](char32_t c) {
            return c == mark_;
          });
    }
  }

 private:
  bool wants_mark(const Pieces& pieces, const Span& piece) const {
    const std::string_view view = pieces.view(piece);
    if (options_.scheme == PrependScheme::never || view[0] == ' ' ||
        view.starts_with(options_.replacement)) {
      return false;
    }
    if (options_.scheme == PrependScheme::always) {
      return true;
    }
    return pieces.text.tracked ? pieces.text.spans[piece.begin].begin == 0
                               : pieces.begins_sentence && piece.begin == 0;
  }

  void replace_spaces(Pieces& pieces) const {
    Rewriter out(pieces.text);
    const std::string& text = pieces.text.text;
    for (Span& piece : pieces.ranges) {
      const Span old = piece;
      const std::uint32_t begin = out.size();
      if (wants_mark(pieces, old)) {
        out.put(options_.replacement, old.begin);
      }
      std::size_t kept = old.begin;
      for (std::size_t at = old.begin; at < old.end; ++at) {
        if (text[at] == ' ') {
          out.keep(kept, at);
          out.put(options_.replacement, at);
          kept = at + 1;
        }
      }
      out.keep(kept, old.end);
      piece = {begin, out.size()};
    }
    out.finish();
  }

  MetaspaceOptions options_;
  char32_t mark_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_metaspace(const JsonNode& node) {
  return std::make_unique<Metaspace>(node);
}

}  // namespace transformers::tokenizers
