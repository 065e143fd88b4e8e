// SPDX-License-Identifier: Apache-2.0
// From pieces to tokens: the quick paths, with remembered words, and the one
// that keeps track of offsets.
#include <algorithm>
#include <cstring>

#include "transformers/tokenizers/engine.h"

namespace transformers::tokenizers {
namespace {

// Appends ids to a vector through a pointer, with room made in advance, so
// that a remembered word costs one copy of fixed size.
class IdWriter {
 public:
  IdWriter(std::vector<std::uint32_t>& ids, std::size_t expected)
      : ids_(ids), size_(ids.size()) {
    ids_.resize(size_ + expected + kSlack);
  }
  ~IdWriter() { ids_.resize(size_); }
  IdWriter(const IdWriter&) = delete;
  IdWriter& operator=(const IdWriter&) = delete;

  template <std::size_t MaxIds>
  void add(const std::uint32_t (&ids)[MaxIds], std::size_t count) {
    make_room();
    std::memcpy(ids_.data() + size_, ids, sizeof ids);
    size_ += count;
  }
  void add(const std::vector<std::uint32_t>& ids) {
    size_t needed = size_ + ids.size() + kSlack;
    if (needed > ids_.size()) {
      ids_.resize(needed + ids_.size() / 2);
    }
    std::copy(ids.begin(), ids.end(), ids_.data() + size_);
    size_ += ids.size();
  }

 private:
  static constexpr std::size_t kSlack = 16;
  void make_room() {
    if (size_ + kSlack > ids_.size()) {
      ids_.resize(ids_.size() + ids_.size() / 2 + kSlack);
    }
  }
  std::vector<std::uint32_t>& ids_;
  std::size_t size_;
};

// The ids of a word: remembered, or made by `make`, which leaves them in
// `workspace.scratch.ids`, and remembered for the next time.
template <typename Table, typename Make>
void look_up(
    Table& table,
    std::string_view word,
    const char* end,
    Workspace& workspace,
    IdWriter& out,
    Make make) {
  const auto key = Table::key_of(word.data(), word.size(), end);
  const std::uint64_t hash = Table::hash_of(key);
  if (const auto* slot = table.find(key, hash)) {
    out.add(slot->ids, slot->count);
    return;
  }
  workspace.scratch.ids.clear();
  make();
  const auto& ids = workspace.scratch.ids;
  if (ids.size() <= std::size(typename Table::Slot().ids)) {
    table.put(key, hash, ids.data(), ids.size());
  }
  out.add(ids);
}

template <typename Make>
void add_word(
    std::string_view word,
    const char* end,
    Workspace& workspace,
    IdWriter& out,
    Make make) {
  if (word.size() <= 24) {
    look_up(workspace.short_words, word, end, workspace, out, make);
  } else if (word.size() <= 64) {
    look_up(workspace.long_words, word, end, workspace, out, make);
  } else {
    workspace.scratch.ids.clear();
    make();
    out.add(workspace.scratch.ids);
  }
}

enum BertByte : std::uint8_t { kInWord, kGap, kMark, kSlow };

struct BertTable {
  std::uint8_t of[256];
  constexpr BertTable() : of() {
    for (int c = 0; c < 256; ++c) {
      const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9');
      const bool gap = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      of[c] = word ? kInWord : gap ? kGap : c > ' ' && c < 127 ? kMark : kSlow;
    }
  }
};
constexpr BertTable kBert{};

}  // namespace

void Engine::encode_plain(
    std::string_view text, Workspace& workspace, Tokens& tokens) const {
  if (path_ == Path::bytes) {
    encode_bytes(text, workspace, tokens);
  } else {
    encode_bert(text, workspace, tokens);
  }
}

void Engine::encode_bytes(
    std::string_view text, Workspace& workspace, Tokens& tokens) const {
  const char* end = text.data() + text.size();
  IdWriter out(tokens.ids, text.size() / 2);
  TokenSink sink{workspace.scratch.ids};
  scan(scanner_, text, [&](std::size_t from, std::size_t to) {
    const std::string_view word = text.substr(from, to - from);
    add_word(word, end, workspace, out, [&] {
      pipeline_->model->tokenize(word, sink);
    });
  });
}

// Normalization never looks across a gap or an ASCII mark, so what lies
// between them can be remembered as it stands in the text.
void Engine::encode_bert(
    std::string_view text, Workspace& workspace, Tokens& tokens) const {
  const char* end = text.data() + text.size();
  const auto kind = [&](std::size_t i) {
    return kBert.of[static_cast<unsigned char>(text[i])];
  };
  IdWriter out(tokens.ids, text.size() / 2);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    std::uint8_t here = kind(at++);
    if (here == kGap) {
      continue;
    }
    std::uint8_t seen = here;
    while (here != kMark && at < text.size()) {
      here = kind(at);
      if (here == kGap || here == kMark) {
        break;
      }
      seen |= here;
      ++at;
    }
    const std::string_view chunk = text.substr(from, at - from);
    add_word(chunk, end, workspace, out, [&] {
      encode_bert_chunk(chunk, seen != kSlow, workspace);
    });
  }
}

void Engine::encode_bert_chunk(
    std::string_view chunk, bool plain, Workspace& workspace) const {
  TokenSink sink{workspace.scratch.ids};
  if (plain) {
    workspace.padded.assign(chunk);
    for (char& c : workspace.padded) {
      c = lowercase_ && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
    pipeline_->model->tokenize(workspace.padded, sink);
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
  TokenSink sink{workspace.scratch.ids};
  if (!text.tracked) {
    const char* end = text.text.data() + text.text.size();
    IdWriter out(tokens.ids, text.text.size() / 2);
    for (const Span& piece : pieces.ranges) {
      const std::string_view word = pieces.view(piece);
      add_word(word, end, workspace, out, [&] {
        pipeline_->model->tokenize(word, sink);
      });
    }
    return;
  }
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
      // A prefix of subwords can make a token longer than its text.
      const std::uint32_t last = piece.end - 1;
      const std::uint32_t from = std::min(piece.begin + spans[i].begin, last);
      const std::uint32_t to = std::min(piece.begin + spans[i].end - 1, last);
      tokens.offsets.push_back({text.spans[from].begin, text.spans[to].end});
      if (pipeline_->post_processor.trim_offsets) {
        tokens.blanks.push_back(
            blanks_of(pipeline_->model->vocabulary().text(id).value_or("")));
      }
    }
    ++tokens.next_word;
  }
}

}  // namespace transformers::tokenizers
