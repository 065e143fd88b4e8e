// SPDX-License-Identifier: Apache-2.0
// SentencePiece's handling of spaces: replaces each space with a visible
// character.
#include "tokenizers/pre_tokenizers/metaspace.h"

#include <algorithm>

#include "tokenizers/pre_tokenizers/pre_tokenizer.h"

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
  const std::string scheme_name = scheme ? scheme->as_string()
                                  : add  ? "always"
                                         : "never";
  if (scheme_name == "always") {
    options.scheme = PrependScheme::always;
  } else if (scheme_name == "first") {
    options.scheme = PrependScheme::first;
  } else if (scheme_name == "never") {
    options.scheme = PrependScheme::never;
  } else {
    scheme->fail_unknown(
        "prepend scheme", scheme_name, {"always", "first", "never"});
  }
  options.split = node.boolean("split", true);
  return options;
}

namespace {

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonNode& node) : options_(read_metaspace(node)) {}

  void split(Pieces& pieces) const override {
    replace_spaces(pieces);
    if (options_.split) {
      split_before_replacement(pieces);
    }
  }

 private:
  bool needs_prefix(const Pieces& pieces, const Span& piece) const {
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
      if (needs_prefix(pieces, old)) {
        out.put(options_.replacement, old.begin);
      }
      std::size_t copied = old.begin;
      for (std::size_t at = old.begin; at < old.end; ++at) {
        if (text[at] == ' ') {
          out.keep(copied, at);
          out.put(options_.replacement, at);
          copied = at + 1;
        }
      }
      out.keep(copied, old.end);
      piece = {begin, out.size()};
    }
    out.finish();
  }

  // Each replacement character begins a piece.
  void split_before_replacement(Pieces& pieces) const {
    std::vector<Span> result;
    result.reserve(pieces.text.text.size() / 4 + pieces.ranges.size());
    for (const Span& piece : pieces.ranges) {
      const std::string_view view = pieces.view(piece);
      std::size_t begin = 0;
      while (begin < view.size()) {
        const std::size_t end =
            std::min(view.find(options_.replacement, begin + 1), view.size());
        result.push_back(
            {piece.begin + static_cast<std::uint32_t>(begin),
             piece.begin + static_cast<std::uint32_t>(end)});
        begin = end;
      }
    }
    pieces.ranges.swap(result);
  }

  MetaspaceOptions options_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_metaspace(const JsonNode& node) {
  return std::make_unique<Metaspace>(node);
}

}  // namespace transformers::tokenizers
