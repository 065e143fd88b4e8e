// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers::tokenizers {

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token;
  token.content = node.string("content");
  if (token.content.empty()) {
    node.at("content").fail("an added token cannot be empty");
  }
  token.special = node.boolean("special", false);
  token.single_word = node.boolean("single_word", false);
  token.lstrip = node.boolean("lstrip", false);
  token.rstrip = node.boolean("rstrip", false);
  token.normalized = node.boolean("normalized", !token.special);
  return token;
}

void TokenFinder::add(std::string_view text, std::size_t index) {
  const std::uint32_t node = trie_.walk(Trie::kRoot, text);
  if (text.empty() ||
      (node != Trie::kNone && trie_.value(node) != Trie::kNone)) {
    return;
  }
  trie_.add(text, static_cast<std::uint32_t>(index));
  bool& first = is_first_byte_[static_cast<unsigned char>(text[0])];
  if (!first) {
    first = true;
    first_bytes_.push_back(text[0]);
  }
}

std::size_t TokenFinder::next(std::string_view text, std::size_t at) const {
  if (at >= text.size() || first_bytes_.empty()) {
    return text.size();
  }
  if (first_bytes_.size() == 1) {
    const void* found =
        std::memchr(text.data() + at, first_bytes_[0], text.size() - at);
    return found == nullptr
               ? text.size()
               : static_cast<std::size_t>(
                     static_cast<const char*>(found) - text.data());
  }
  while (at < text.size() &&
         !is_first_byte_[static_cast<unsigned char>(text[at])]) {
    ++at;
  }
  return at;
}

std::size_t TokenFinder::longest_match(
    std::string_view text, std::size_t& index) const {
  std::size_t size = 0;
  std::uint32_t node = Trie::kRoot;
  for (std::size_t i = 0; i < text.size(); ++i) {
    node = trie_.child(node, static_cast<unsigned char>(text[i]));
    if (node == Trie::kNone) {
      break;
    }
    if (trie_.value(node) != Trie::kNone) {
      index = trie_.value(node);
      size = i + 1;
    }
  }
  return size;
}

std::uint32_t AddedTokens::add(AddedToken token, const Vocabulary& vocabulary) {
  if (token.special) {
    special_texts_.insert(token.content);
  }
  token.was_normalized = token.normalized;
  const auto existing = by_content_.find(token.content);
  if (existing != by_content_.end()) {
    AddedToken& previous = tokens_[existing->second];
    token.id = previous.id;
    token.was_normalized = token.normalized || previous.was_normalized;
    previous = std::move(token);
    return previous.id;
  }
  if (const auto id = vocabulary.find(token.content)) {
    token.id = *id;
  } else {
    token.id =
        std::max(next_id_, static_cast<std::uint32_t>(vocabulary.size()));
  }
  if (token.id > Vocabulary::kMaxId) {
    throw accelerate::FormatError(accelerate::str_cat(
        "an added token has the id ",
        token.id,
        "; the largest possible id is ",
        Vocabulary::kMaxId));
  }
  next_id_ = std::max(next_id_, token.id + 1);
  by_content_.emplace(token.content, tokens_.size());
  by_id_[token.id] = tokens_.size();
  tokens_.push_back(std::move(token));
  return tokens_.back().id;
}

void AddedTokens::prepare(const Normalizer* normalizer) {
  before_normalization_ = TokenFinder();
  after_normalization_ = TokenFinder();
  // If two tokens have the same normalized text, the one with the smaller id is
  // found.
  std::vector<std::size_t> by_id(tokens_.size());
  std::iota(by_id.begin(), by_id.end(), std::size_t{0});
  std::sort(by_id.begin(), by_id.end(), [&](std::size_t a, std::size_t b) {
    return tokens_[a].id < tokens_[b].id;
  });
  for (const std::size_t i : by_id) {
    AddedToken& token = tokens_[i];
    token.display = token.content;
    if (token.was_normalized && normalizer != nullptr) {
      AlignedText text;
      text.assign(token.content, 0, false);
      normalizer->normalize(text);
      token.display = std::move(text.text);
    }
    if (token.normalized) {
      after_normalization_.add(token.display, i);
    } else {
      before_normalization_.add(token.content, i);
    }
  }
}

namespace {

bool is_whole_word(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t length = 0;
  const bool left_boundary =
      begin == 0 || !is_a(last_character(text.substr(0, begin)), kWord);
  return left_boundary &&
         (end == text.size() ||
          !is_a(read_character(text.data() + end, length), kWord));
}

std::size_t spaces_before(std::string_view text, std::size_t begin) {
  while (begin > 0 && is_a(last_character(text.substr(0, begin)), kSpace)) {
    do {
      --begin;
    } while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80);
  }
  return begin;
}

std::size_t spaces_after(std::string_view text, std::size_t end) {
  std::size_t length = 0;
  while (end < text.size() &&
         is_a(read_character(text.data() + end, length), kSpace)) {
    end += length;
  }
  return end;
}

Span span_of(std::size_t begin, std::size_t end) {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

}  // namespace

void AddedTokens::split(
    std::string_view text,
    bool normalized,
    std::vector<Segment>& segments) const {
  std::size_t done = 0;
  (normalized ? after_normalization_ : before_normalization_)
      .find(text, [&](std::size_t begin, std::size_t end, std::size_t index) {
        const AddedToken& token = tokens_[index];
        if (token.single_word && !is_whole_word(text, begin, end)) {
          return;
        }
        if (token.lstrip) {
          // Stops at the previous match. Otherwise, the running time would be
          // quadratic.
          begin = done + spaces_before(
                             text.substr(done, begin - std::min(done, begin)),
                             begin - std::min(done, begin));
        }
        if (token.rstrip) {
          end = spaces_after(text, end);
        }
        if (done < begin) {
          segments.push_back({span_of(done, begin), nullptr});
        }
        segments.push_back({span_of(begin, end), &token});
        done = end;
      });
  if (done < text.size()) {
    segments.push_back({span_of(done, text.size()), nullptr});
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace transformers::tokenizers
