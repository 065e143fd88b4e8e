// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tokenizers/models/bpe_parts.h"
#include "tokenizers/models/bpe_word.h"
#include "tokenizers/models/model.h"

namespace transformers::tokenizers {

struct BpeOptions {
  std::string unk_token;  // If empty, unknown characters are dropped.
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

/// An object that the first call of `get` creates. Thread-safe.
template <typename Object>
class Lazy {
 public:
  template <typename Make>
  const Object& get(Make make) {
    if (const Object* object = ready_.load(std::memory_order_acquire)) {
      return *object;
    }
    const std::lock_guard lock(mutex_);
    if (!object_) {
      object_ = make();
      ready_.store(object_.get(), std::memory_order_release);
    }
    return *object_;
  }

 private:
  std::atomic<const Object*> ready_ = nullptr;
  std::mutex mutex_;
  std::unique_ptr<Object> object_;
};

class Bpe : public Model {
 public:
  Bpe(BpeOptions options, Vocabulary vocabulary, MergeTable merges);

  std::string_view name() const override { return "BPE"; }
  void tokenize(std::string_view piece, TokenSink& sink) const override;
  std::size_t first_part(std::string_view piece) const override;

  accelerate::Json merges_json() const override;

  /// Makes `tokenize` take raw bytes instead of GPT-2's byte characters.
  /// Returns false and changes nothing when a byte has no token.
  bool use_raw_bytes();

 private:
  void split_characters(
      std::string_view piece, std::vector<Symbol>& symbols) const;
  bool append_byte_tokens(
      std::string_view text, std::vector<Symbol>& symbols) const;
  bool has_affixes() const {
    return !options_.continuing_subword_prefix.empty() ||
           !options_.end_of_word_suffix.empty();
  }
  const CharacterIds& character_ids() const;
  /// Whether each character without a token becomes one token per byte, and no
  /// merge joins such tokens.
  bool unknown_characters_are_separate() const;

  BpeOptions options_;
  MergeTable merges_;
  std::optional<std::uint32_t> unk_id_;
  std::optional<std::array<std::uint32_t, 256>> byte_ids_;
  std::array<std::optional<std::uint32_t>, 256> fallback_ids_;
  // Created on first use, because loading must be fast.
  mutable Lazy<CharacterIds> characters_;
  mutable Lazy<BpeParts> parts_;
};

}  // namespace transformers::tokenizers
