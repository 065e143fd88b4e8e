// SPDX-License-Identifier: Apache-2.0
// The fast paths with offsets. Cached words have only ids; the text of each
// token determines how much of the input the token covers.
#include <optional>

#include "tokenizers/engine.h"
#include "tokenizers/models/word_lookup.h"

namespace transformers::tokenizers {
namespace {

bool is_inside_character(std::string_view text, std::size_t at) {
  return at < text.size() &&
         (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Extends a range of bytes to whole characters.
Span whole_characters(
    std::string_view text, std::size_t begin, std::size_t end) {
  while (is_inside_character(text, begin)) {
    --begin;
  }
  while (is_inside_character(text, end)) {
    ++end;
  }
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

}  // namespace

void Engine::compute_extents() const {
  std::call_once(extents_once_, [&] {
    const Vocabulary& vocabulary = pipeline_->model->vocabulary();
    extents_.resize(vocabulary.limit());
    vocabulary.for_each([&](std::string_view token, std::uint32_t id) {
      // In GPT-2's mapping each byte is one character.
      const std::size_t bytes =
          path_ == Path::bytes ? count_characters(token) : token.size();
      extents_[id] = {static_cast<std::uint32_t>(bytes), edge_spaces_of(token)};
    });
  });
}

void Engine::track_fast(
    std::string_view text,
    std::uint32_t base,
    Workspace& workspace,
    Tokens& tokens) const {
  compute_extents();
  if (path_ == Path::bytes) {
    track_bytes(text, base, workspace, tokens);
  } else {
    track_bert(text, base, workspace, tokens);
  }
}

void Engine::track_bytes(
    std::string_view text,
    std::uint32_t base,
    Workspace& workspace,
    Tokens& tokens) const {
  const bool trims = pipeline_->post_processor.trim_offsets;
  IdWriter out(tokens.ids, text.size() / 2);
  PieceWriter pieces(
      *pipeline_->model, text.data() + text.size(), workspace, out);
  const auto add = [&](std::size_t from, std::size_t to) {
    const std::size_t first = out.size();
    pieces.add(text.substr(from, to - from));
    pieces.flush();
    for (std::size_t i = first, at = from; i < out.size(); ++i) {
      const TokenExtent& extent = extent_of(out[i]);
      const Span span = whole_characters(text, at, at + extent.bytes);
      tokens.offsets.push_back({base + span.begin, base + span.end});
      tokens.words.push_back(tokens.next_word);
      if (trims) {
        tokens.edge_spaces.push_back(extent.edge_spaces);
      }
      at += extent.bytes;
    }
    ++tokens.next_word;
  };
  scan_all(scanners_, text, 0, add);
}

// See `encode_bert`. In chunks of plain ASCII, normalization does not change
// offsets. Other chunks go through all stages.
void Engine::track_bert(
    std::string_view text,
    std::uint32_t base,
    Workspace& workspace,
    Tokens& tokens) const {
  const char* end = text.data() + text.size();
  std::optional<IdWriter> out(std::in_place, tokens.ids, text.size() / 2);
  for_each_bert_chunk(
      text, [&](std::size_t from, std::size_t to, bool plain_ascii) {
        const std::string_view chunk = text.substr(from, to - from);
        const auto chunk_begin = static_cast<std::uint32_t>(base + from);
        if (!plain_ascii) {
          out.reset();
          track_bert_chunk(chunk, chunk_begin, workspace, tokens);
          out.emplace(tokens.ids, (text.size() - to) / 2);
          return;
        }
        const std::size_t first = out->size();
        add_word(chunk, end, workspace, *out, [&] {
          encode_bert_chunk(chunk, true, workspace);
        });
        std::uint32_t at = chunk_begin;
        for (std::size_t i = first; i < out->size(); ++i) {
          // The last token of a word ends where the word ends. This is also
          // true for the unknown token, which covers the whole word.
          const std::size_t prefix = i == first ? 0 : subword_prefix_;
          const bool last = i + 1 == out->size();
          const auto next = static_cast<std::uint32_t>(
              last ? base + to : at + extent_of((*out)[i]).bytes - prefix);
          tokens.offsets.push_back({at, next});
          tokens.words.push_back(tokens.next_word);
          at = next;
        }
        ++tokens.next_word;
      });
}

void Engine::track_bert_chunk(
    std::string_view chunk,
    std::uint32_t base,
    Workspace& workspace,
    Tokens& tokens) const {
  Pieces& pieces = workspace.pieces;
  pieces.text.assign(chunk, base, true);
  pipeline_->normalizer->normalize(pieces.text);
  pieces.ranges.assign(
      1, {0, static_cast<std::uint32_t>(pieces.text.text.size())});
  pipeline_->pre_tokenizer->split(pieces);
  encode_pieces(workspace, tokens);
}

}  // namespace transformers::tokenizers
