// SPDX-License-Identifier: Apache-2.0
// `Split`: splits pieces at a pattern.
#include "tokenizers/pre_tokenizers/pattern.h"
#include "tokenizers/pre_tokenizers/splitting.h"

namespace transformers::tokenizers {
namespace {

class Split : public PreTokenizer {
 public:
  explicit Split(const JsonNode& node)
      : pattern_(make_pattern(node.at("pattern"))),
        behavior_(split_behavior(node.at("behavior"))),
        invert_(node.boolean("invert")) {}

  void split(Pieces& pieces) const override {
    std::vector<Span> result;
    std::vector<Span> matches;
    std::vector<MatchSegment> segments;
    for (const Span& piece : pieces.ranges) {
      matches.clear();
      segments.clear();
      pattern_->find(pieces.view(piece), matches);
      match_segments_of(matches, piece.size(), invert_, segments);
      apply_split_behavior(segments, behavior_, piece.begin, result);
    }
    pieces.ranges.swap(result);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Returns a scanner whose pieces are the pieces of the `Split`.
Scanner piece_scanner(const JsonNode& node) {
  const auto expression = node.at("pattern").find("Regex");
  if (!expression || !expression->value().is_string()) {
    return Scanner::none;
  }
  const SplitBehavior behavior = split_behavior(node.at("behavior"));
  if (behavior == SplitBehavior::isolated) {
    return isolating_scanner_for(expression->as_string());
  }
  return behavior == SplitBehavior::removed && node.boolean("invert")
             ? scanner_for(expression->as_string())
             : Scanner::none;
}

}  // namespace

void ScannerSplit::split(Pieces& pieces) const {
  std::vector<Span> result;
  result.reserve(pieces.text.text.size() / 4);
  for (const Span& piece : pieces.ranges) {
    scan(scanner, pieces.view(piece), [&](std::size_t begin, std::size_t end) {
      result.push_back(
          {piece.begin + static_cast<std::uint32_t>(begin),
           piece.begin + static_cast<std::uint32_t>(end)});
    });
  }
  pieces.ranges.swap(result);
}

std::unique_ptr<PreTokenizer> make_split(const JsonNode& node) {
  const Scanner scanner = piece_scanner(node);
  if (scanner != Scanner::none) {
    return std::make_unique<ScannerSplit>(scanner);
  }
  return std::make_unique<Split>(node);
}

}  // namespace transformers::tokenizers
