// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/engine.h"

#include <algorithm>
#include <limits>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tokenizers/text/byte_level.h"

namespace transformers::tokenizers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

// The caches take up to 8 and 4 MiB, which is enough for the words of a text in
// many languages. Frequent words fit into the processor cache of one core, and
// unused slots take no memory.
constexpr std::size_t kShortSlots = 1 << 17;
constexpr std::size_t kLongSlots = 1 << 15;
constexpr std::size_t kMaxIdleWorkspaces = 16;

void check_text(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max() / 2) {
    throw ArgumentError(
        str_cat("a text of ", text.size(), " bytes is too long to encode"),
        "encode it in parts");
  }
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    throw ArgumentError(
        str_cat(
            "the text to encode is not UTF-8: byte ",
            invalid,
            " of ",
            text.size(),
            " is 0x",
            std::hex,
            static_cast<unsigned>(static_cast<unsigned char>(text[invalid]))),
        "convert the text to UTF-8 first");
  }
}

// Converts byte offsets to character offsets.
void to_character_offsets(
    std::string_view text, std::size_t first, std::vector<Span>& offsets) {
  if (is_ascii(text)) {
    return;
  }
  std::vector<std::uint32_t> character(text.size() + 1);
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool continuation =
        (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
    count += continuation ? 0 : 1;
    character[i] = count - 1;
  }
  character[text.size()] = count;
  for (std::size_t i = first; i < offsets.size(); ++i) {
    offsets[i] = {character[offsets[i].begin], character[offsets[i].end]};
  }
}

std::string subword_prefix_of(const accelerate::Json& description) {
  const accelerate::Json* prefix =
      description.at("model").find("continuing_subword_prefix");
  return prefix != nullptr && prefix->is_string() ? prefix->as_string() : "##";
}

// Returns the scanners of a byte-level pre-tokenizer, or of a sequence that
// splits with scanners and ends with a byte-level pre-tokenizer. Returns
// nothing for other stages.
std::vector<Scanner> scanners_of(const PreTokenizer* stage) {
  if (const auto* level = dynamic_cast<const ByteLevelPreTokenizer*>(stage)) {
    return level->add_prefix_space ? std::vector<Scanner>()
                                   : std::vector<Scanner>{level->scanner};
  }
  const auto* sequence = dynamic_cast<const PreTokenizerSequence*>(stage);
  if (sequence == nullptr || sequence->parts.empty()) {
    return {};
  }
  std::vector<Scanner> scanners;
  for (std::size_t i = 0; i + 1 < sequence->parts.size(); ++i) {
    const auto* split =
        dynamic_cast<const ScannerSplit*>(sequence->parts[i].get());
    if (split == nullptr) {
      return {};
    }
    scanners.push_back(split->scanner);
  }
  const auto* level =
      dynamic_cast<const ByteLevelPreTokenizer*>(sequence->parts.back().get());
  if (level == nullptr || level->add_prefix_space) {
    return {};
  }
  if (level->scanner != Scanner::none || scanners.empty()) {
    scanners.push_back(level->scanner);
  }
  return scanners;
}

}  // namespace

void Tokens::clear() {
  ids.clear();
  offsets.clear();
  words.clear();
  edge_spaces.clear();
  next_word = 0;
}

Workspace::Workspace() : short_words(kShortSlots), long_words(kLongSlots) {
}

Engine::Lease::Lease(const Engine& engine) : engine_(engine) {
  const std::lock_guard lock(engine.mutex_);
  if (engine.idle_workspaces_.empty()) {
    workspace_ = std::make_unique<Workspace>();
  } else {
    workspace_ = std::move(engine.idle_workspaces_.back());
    engine.idle_workspaces_.pop_back();
  }
}

Engine::Lease::~Lease() {
  const std::lock_guard lock(engine_.mutex_);
  if (engine_.idle_workspaces_.size() < kMaxIdleWorkspaces) {
    engine_.idle_workspaces_.push_back(std::move(workspace_));
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
    tracks_fast_ = pipeline_->model->name() == "WordPiece" &&
                   !pipeline_->post_processor.trim_offsets;
    subword_prefix_ = subword_prefix_of(pipeline_->description).size();
    return;
  }
  if (!pipeline_->model_reads_raw_bytes) {
    return;
  }
  scanners_ = scanners_of(stage);
  if (scanners_.empty()) {
    return;
  }
  path_ = Path::bytes;
  tracks_fast_ = pipeline_->normalizer == nullptr;
}

EdgeSpaces Engine::edge_spaces_of(std::string_view token) const {
  // U+0120, GPT-2's character for a space, is also blank.
  const auto blank = [](char32_t c) { return c == 0x120 || is_a(c, kSpace); };
  EdgeSpaces result;
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

void Engine::add_added_token(
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
      tokens.edge_spaces.push_back(edge_spaces_of(text));
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
  workspace.raw_segments.clear();
  added.split(text, false, workspace.raw_segments);
  for (const Segment& segment : workspace.raw_segments) {
    if (segment.token == nullptr) {
      encode_segment(text, segment.range, track, workspace, tokens);
    } else {
      add_added_token(
          *segment.token,
          text.substr(segment.range.begin, segment.range.size()),
          segment.range,
          track,
          tokens);
    }
  }
  if (track) {
    to_character_offsets(text, first, tokens.offsets);
  }
}

bool Engine::begins_sentence(std::string_view text, const Span& range) const {
  if (range.begin != 0 || pipeline_->normalizer == nullptr) {
    return range.begin == 0;
  }
  // Normalization may remove characters at the beginning.
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
  const bool needs_stages =
      path_ == Path::general ||
      (path_ == Path::bytes && pipeline_->normalizer != nullptr);
  if (!track && !needs_stages && added.has_none(true)) {
    return encode_fast(part, workspace, tokens);
  }
  if (track && tracks_fast_ && added.has_none(true)) {
    return track_fast(part, range.begin, workspace, tokens);
  }
  AlignedText& normalized = workspace.normalized;
  normalized.assign(part, range.begin, track);
  if (pipeline_->normalizer != nullptr) {
    pipeline_->normalizer->normalize(normalized);
  }
  workspace.pieces.begins_sentence = false;
  const bool begins = !track && path_ == Path::general &&
                      pipeline_->pre_tokenizer != nullptr &&
                      begins_sentence(text, range);
  workspace.normalized_segments.clear();
  added.split(normalized.text, true, workspace.normalized_segments);
  for (const Segment& segment : workspace.normalized_segments) {
    if (segment.token == nullptr) {
      workspace.pieces.begins_sentence = begins && segment.range.begin == 0;
      if (!track && path_ == Path::bytes) {
        const std::string_view all = normalized.text;
        encode_bytes(
            all.substr(segment.range.begin, segment.range.size()),
            workspace,
            tokens);
      } else {
        encode_normalized(segment.range, workspace, tokens);
      }
      continue;
    }
    const Span original =
        track ? Span{normalized.spans[segment.range.begin].begin,
                     normalized.spans[segment.range.end - 1].end}
              : Span{};
    add_added_token(
        *segment.token,
        std::string_view(normalized.text)
            .substr(segment.range.begin, segment.range.size()),
        original,
        track,
        tokens);
  }
}

void Engine::encode_normalized(
    const Span& range, Workspace& workspace, Tokens& tokens) const {
  const AlignedText& source = workspace.normalized;
  Pieces& pieces = workspace.pieces;
  pieces.text.assign_part(source, range);
  pieces.ranges.assign(1, {0, range.size()});
  if (pipeline_->pre_tokenizer != nullptr) {
    pipeline_->pre_tokenizer->split(pieces);
  }
  encode_pieces(workspace, tokens);
}

}  // namespace transformers::tokenizers
