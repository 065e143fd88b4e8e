// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "tokenizers/text/byte_level.h"

namespace transformers::tokenizers {
namespace {

// Inserts a space before each piece that does not begin with one.
void add_spaces(Pieces& pieces) {
  Rewriter out(pieces.text);
  for (Span& piece : pieces.ranges) {
    const Span old = piece;
    piece.begin = out.size();
    if (pieces.text.text[old.begin] != ' ') {
      out.put(' ', old.begin);
    }
    out.keep(old.begin, old.end);
    piece.end = out.size();
  }
  out.finish();
}

void map_bytes(Pieces& pieces) {
  Rewriter out(pieces.text);
  const std::string& text = pieces.text.text;
  for (Span& piece : pieces.ranges) {
    const Span old = piece;
    piece.begin = out.size();
    for (std::size_t at = old.begin; at < old.end; ++at) {
      out.put(
          byte_to_unicode_table()[static_cast<unsigned char>(text[at])], at);
    }
    piece.end = out.size();
  }
  out.finish();
}

}  // namespace

void ByteLevelPreTokenizer::split(Pieces& pieces) const {
  if (add_prefix_space) {
    add_spaces(pieces);
  }
  if (scanner != Scanner::none) {
    ScannerSplit(scanner).split(pieces);
  }
  if (maps_bytes) {
    map_bytes(pieces);
  }
}

}  // namespace transformers::tokenizers
