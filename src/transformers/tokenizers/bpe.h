// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "transformers/tokenizers/bpe_word.h"
#include "transformers/tokenizers/model.h"

namespace transformers::tokenizers {

struct BpeOptions {
  std::string unk_token;  // Empty: unknown characters are dropped.
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

class Bpe : public Model {
 public:
  Bpe(BpeOptions options, Vocabulary vocabulary, MergeTable merges);

  std::string_view name() const override { return "BPE"; }
  void tokenize(std::string_view piece, TokenSink& sink) const override;

  accelerate::Json merges_json() const override;

  /// Makes `tokenize` take raw bytes instead of GPT-2's byte characters.
  /// Returns false and changes nothing when a byte has no token.
  bool use_raw_bytes();

 private:
  void split_characters(
      std::string_view piece, std::vector<Symbol>& symbols) const;
  bool append_byte_tokens(
      std::string_view text, std::vector<Symbol>& symbols) const;

  BpeOptions options_;
  MergeTable merges_;
  std::optional<std::uint32_t> unk_id_;
  std::optional<std::array<std::uint32_t, 256>> byte_ids_;
  std::array<std::optional<std::uint32_t>, 256> fallback_ids_;
};

}  // namespace transformers::tokenizers
