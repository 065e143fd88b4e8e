// SPDX-License-Identifier: Apache-2.0
// Converts pieces to tokens: contains the fast paths, which use cached words,
// and the general path, which tracks offsets through every stage.
#include <algorithm>

#include "tokenizers/engine.h"
#include "tokenizers/models/word_lookup.h"

namespace transformers::tokenizers {

void Engine::encode_fast(
    std::string_view text, Workspace& workspace, Tokens& tokens) const {
  if (path_ == Path::bytes) {
    encode_bytes(text, workspace, tokens);
  } else {
    encode_bert(text, workspace, tokens);
  }
}

void Engine::encode_bytes(
    std::string_view text, Workspace& workspace, Tokens& tokens) const {
  IdWriter out(tokens.ids, text.size() / 2);
  PieceWriter pieces(
      *pipeline_->model, text.data() + text.size(), workspace, out);
  const auto add = [&](std::size_t from, std::size_t to) {
    pieces.add(text.substr(from, to - from));
  };
  scan_all(scanners_, text, 0, add);
  pieces.flush();
}

// Normalization does not depend on text beyond a separator or an ASCII
// punctuation mark, so the original text between them can be used as the key of
// the cache.
void Engine::encode_bert(
    std::string_view text, Workspace& workspace, Tokens& tokens) const {
  const char* end = text.data() + text.size();
  IdWriter out(tokens.ids, text.size() / 2);
  for_each_bert_chunk(
      text, [&](std::size_t from, std::size_t to, bool plain_ascii) {
        const std::string_view chunk = text.substr(from, to - from);
        add_word(chunk, end, workspace, out, [&] {
          encode_bert_chunk(chunk, plain_ascii, workspace);
        });
      });
}

void Engine::encode_bert_chunk(
    std::string_view chunk, bool plain_ascii, Workspace& workspace) const {
  TokenSink sink{workspace.scratch.ids};
  if (plain_ascii) {
    workspace.lowercased.assign(chunk);
    for (char& c : workspace.lowercased) {
      c = lowercase_ && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
    pipeline_->model->tokenize(workspace.lowercased, sink);
    return;
  }
  Pieces& pieces = workspace.pieces;
  pieces.text.assign(chunk, 0, false);
  pipeline_->normalizer->normalize(pieces.text);
  pieces.ranges.assign(
      1, {0, static_cast<std::uint32_t>(pieces.text.text.size())});
  pipeline_->pre_tokenizer->split(pieces);
  for (const Span& piece : pieces.ranges) {
    pipeline_->model->tokenize(pieces.view(piece), sink);
  }
}

void Engine::encode_pieces(Workspace& workspace, Tokens& tokens) const {
  const Pieces& pieces = workspace.pieces;
  const AlignedText& text = pieces.text;
  if (!text.tracked) {
    IdWriter out(tokens.ids, text.text.size() / 2);
    PieceWriter writer(
        *pipeline_->model, text.text.data() + text.text.size(), workspace, out);
    for (const Span& piece : pieces.ranges) {
      writer.add(pieces.view(piece));
    }
    writer.flush();
    return;
  }
  TokenSink sink{workspace.scratch.ids};
  std::vector<Span>& spans = workspace.scratch.offsets;
  sink.spans = &spans;
  for (const Span& piece : pieces.ranges) {
    workspace.scratch.ids.clear();
    spans.clear();
    pipeline_->model->tokenize(pieces.view(piece), sink);
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const std::uint32_t id = workspace.scratch.ids[i];
      tokens.ids.push_back(id);
      tokens.words.push_back(tokens.next_word);
      // The subword prefix can make a token longer than the text it covers.
      const std::uint32_t last = piece.end - 1;
      const std::uint32_t from = std::min(piece.begin + spans[i].begin, last);
      const std::uint32_t to = std::min(piece.begin + spans[i].end - 1, last);
      tokens.offsets.push_back({text.spans[from].begin, text.spans[to].end});
      if (pipeline_->post_processor.trim_offsets) {
        tokens.edge_spaces.push_back(edge_spaces_of(
            pipeline_->model->token_text(id, pieces.view(piece), spans[i])));
      }
    }
    ++tokens.next_word;
  }
}

}  // namespace transformers::tokenizers
