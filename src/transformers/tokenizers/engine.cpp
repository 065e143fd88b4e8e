// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/engine.h"

#include <algorithm>
#include <limits>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/tokenizers/byte_level.h"

namespace transformers::tokenizers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

// Enough for the words of most texts, small enough for a core's own cache to
// hold the frequent ones.
constexpr std::size_t kShortSlots = 1 << 16;
constexpr std::size_t kLongSlots = 1 << 14;
constexpr std::size_t kIdleWorkspaces = 16;

void check_text(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max() / 2) {
    throw ArgumentError(
        str_cat("a text of ", text.size(), " bytes is too long to encode"),
        "encode it in parts");
  }
  const std::size_t bad = find_bad_utf8(text);
  if (bad != std::string_view::npos) {
    throw ArgumentError(
        str_cat(
            "the text to encode is not UTF-8: byte ",
            bad,
            " of ",
            text.size(),
            " is 0x",
            std::hex,
            static_cast<unsigned>(static_cast<unsigned char>(text[bad]))),
        "convert the text to UTF-8 first");
  }
}

// Turns offsets in bytes into offsets in characters.
void count_in_characters(
    std::string_view text, std::size_t first, std::vector<Span>& offsets) {
  if (is_ascii(text)) {
    return;
  }
  std::vector<std::uint32_t> character(text.size() + 1);
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool inside = (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
    count += inside ? 0 : 1;
    character[i] = count - 1;
  }
  character[text.size()] = count;
  for (std::size_t i = first; i < offsets.size(); ++i) {
    offsets[i] = {character[offsets[i].begin], character[offsets[i].end]};
  }
}

std::string prefix_of(const accelerate::Json& description) {
  const accelerate::Json* prefix =
      description.at("model").find("continuing_subword_prefix");
  return prefix != nullptr && prefix->is_string() ? prefix->as_string() : "##";
}

}  // namespace

void Tokens::clear() {
  ids.clear();
  offsets.clear();
  words.clear();
  blanks.clear();
  next_word = 0;
}

Workspace::Workspace() : short_words(kShortSlots), long_words(kLongSlots) {
}

Engine::Lease::Lease(const Engine& engine) : engine_(engine) {
  const std::lock_guard lock(engine.mutex_);
  if (engine.idle_.empty()) {
    workspace_ = std::make_unique<Workspace>();
  } else {
    workspace_ = std::move(engine.idle_.back());
    engine.idle_.pop_back();
  }
}

Engine::Lease::~Lease() {
  const std::lock_guard lock(engine_.mutex_);
  if (engine_.idle_.size() < kIdleWorkspaces) {
    engine_.idle_.push_back(std::move(workspace_));
  }
}

Engine::Engine(std::unique_ptr<Pipeline> pipeline)
    : pipeline_(std::move(pipeline)) {
  const PreTokenizer* stage = pipeline_->pre_tokenizer.get();
  const auto* bert =
      dynamic_cast<const BertNormalizer*>(pipeline_->normalizer.get());
  if (bert != nullptr && dynamic_cast<const BertPreTokenizer*>(stage)) {
    path_ = Path::bert;
    lowercase_ = bert->options().lowercase;
    tracks_plain_ = pipeline_->model->name() == "WordPiece" &&
                    !pipeline_->post_processor.trim_offsets;
    subword_prefix_ = prefix_of(pipeline_->description).size();
    return;
  }
  if (!pipeline_->reads_bytes || pipeline_->normalizer != nullptr) {
    return;
  }
  if (const auto* level = dynamic_cast<const ByteLevelPreTokenizer*>(stage)) {
    if (!level->add_prefix_space) {
      path_ = Path::bytes;
      scanner_ = level->scanner;
    }
  } else if (
      const auto* all = dynamic_cast<const PreTokenizerSequence*>(stage)) {
    const auto* split =
        all->parts.size() == 2
            ? dynamic_cast<const ScannerSplit*>(all->parts.front().get())
            : nullptr;
    const auto* spell =
        dynamic_cast<const ByteLevelPreTokenizer*>(all->parts.back().get());
    if (split != nullptr && spell != nullptr && !spell->add_prefix_space &&
        spell->scanner == Scanner::none) {
      path_ = Path::bytes;
      scanner_ = split->scanner;
    }
  }
  tracks_plain_ = path_ == Path::bytes;
}

Blanks Engine::blanks_of(std::string_view token) const {
  // GPT-2's spelling of a space counts as one.
  const auto blank = [](char32_t c) { return c == 0x120 || is_a(c, kSpace); };
  Blanks result;
  for (std::size_t at = 0; at < token.size();) {
    std::size_t length = 0;
    if (!blank(read_character(token.data() + at, length))) {
      break;
    }
    ++result.leading;
    at += length;
  }
  while (!token.empty() && blank(last_character(token))) {
    ++result.trailing;
    std::size_t at = token.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(token[at]) & 0xC0) == 0x80) {
      --at;
    }
    token = token.substr(0, at);
  }
  return result;
}

void Engine::add_added(
    const AddedToken& token,
    std::string_view text,
    const Span& original,
    bool track,
    Tokens& tokens) const {
  tokens.ids.push_back(token.id);
  if (track) {
    tokens.offsets.push_back(original);
    tokens.words.push_back(tokens.next_word++);
    if (pipeline_->post_processor.trim_offsets) {
      tokens.blanks.push_back(blanks_of(text));
    }
  }
}

void Engine::encode(
    std::string_view text,
    bool track,
    Workspace& workspace,
    Tokens& tokens) const {
  check_text(text);
  const std::size_t first = tokens.offsets.size();
  const AddedTokens& added = pipeline_->added_tokens;
  workspace.before.clear();
  added.cut(text, false, workspace.before);
  for (const Cut& cut : workspace.before) {
    if (cut.token == nullptr) {
      encode_segment(text, cut.range, track, workspace, tokens);
    } else {
      add_added(
          *cut.token,
          text.substr(cut.range.begin, cut.range.size()),
          cut.range,
          track,
          tokens);
    }
  }
  if (track) {
    count_in_characters(text, first, tokens.offsets);
  }
}

bool Engine::begins_sentence(std::string_view text, const Span& range) const {
  if (range.begin != 0 || pipeline_->normalizer == nullptr) {
    return range.begin == 0;
  }
  // What stands first after normalization may come from further on.
  std::size_t size = std::min<std::size_t>(range.end, 64);
  while (size < range.end &&
         (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) {
    ++size;
  }
  AlignedText head;
  head.assign(text.substr(0, size), 0, true);
  pipeline_->normalizer->normalize(head);
  return head.spans.empty() || head.spans[0].begin == 0;
}

void Engine::encode_segment(
    std::string_view text,
    Span range,
    bool track,
    Workspace& workspace,
    Tokens& tokens) const {
  const std::string_view part = text.substr(range.begin, range.size());
  const AddedTokens& added = pipeline_->added_tokens;
  if (!track && path_ != Path::general && added.none(true)) {
    return encode_plain(part, workspace, tokens);
  }
  if (track && tracks_plain_ && added.none(true)) {
    return track_plain(part, range.begin, workspace, tokens);
  }
  AlignedText& normalized = workspace.normalized;
  normalized.assign(part, range.begin, track);
  if (pipeline_->normalizer != nullptr) {
    pipeline_->normalizer->normalize(normalized);
  }
  workspace.pieces.begins_sentence = false;
  const bool begins = !track && begins_sentence(text, range);
  workspace.after.clear();
  added.cut(normalized.text, true, workspace.after);
  for (const Cut& cut : workspace.after) {
    if (cut.token == nullptr) {
      workspace.pieces.begins_sentence = begins && cut.range.begin == 0;
      encode_normalized(cut.range, workspace, tokens);
      continue;
    }
    const Span original =
        track ? Span{normalized.spans[cut.range.begin].begin,
                     normalized.spans[cut.range.end - 1].end}
              : Span{};
    add_added(
        *cut.token,
        std::string_view(normalized.text)
            .substr(cut.range.begin, cut.range.size()),
        original,
        track,
        tokens);
  }
}

void Engine::encode_normalized(
    const Span& range, Workspace& workspace, Tokens& tokens) const {
  const AlignedText& source = workspace.normalized;
  Pieces& pieces = workspace.pieces;
  pieces.text.text.assign(source.text, range.begin, range.size());
  pieces.text.tracked = source.tracked;
  if (source.tracked) {
    pieces.text.spans.assign(
        source.spans.begin() + range.begin, source.spans.begin() + range.end);
  }
  pieces.ranges.assign(1, {0, range.size()});
  if (pipeline_->pre_tokenizer != nullptr) {
    pipeline_->pre_tokenizer->split(pieces);
  }
  encode_pieces(workspace, tokens);
}

}  // namespace transformers::tokenizers
