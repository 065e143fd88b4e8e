// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, equal to Python's in ids and offsets.
//
//     auto tokenizer = transformers::AutoTokenizer::from_pretrained("folder");
//     auto batch = tokenizer(
//         sentences, {.padding = true, .truncation = true, .max_length = 128});
//     std::string text = tokenizer.decode(batch[0].input_ids);
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transformers/encoding.h"
#include "transformers/export.h"
#include "transformers/tokenizer_options.h"

namespace transformers {

/// A tokenizer. Copies share it; nothing changes it once it is loaded.
///
/// Thread-safe: any number of threads may call one tokenizer. Every function
/// that takes text throws `ArgumentError` when it is not UTF-8.
class TRANSFORMERS_API Tokenizer {
 public:
  /// Encodes one text, or a pair of texts that go into the model together.
  ///
  /// Throws `ArgumentError` when the options contradict each other, or when
  /// the text cannot be truncated as they ask.
  [[nodiscard]] Encoding operator()(
      std::string_view text, const TokenizerCallOptions& options = {}) const;
  template <std::convertible_to<std::string_view> Text>
  [[nodiscard]] Encoding operator()(
      std::string_view text,
      const Text& text_pair,
      const TokenizerCallOptions& options = {}) const {
    return encode_pair(text, text_pair, options);
  }

  /// Encodes many texts, or pairs, in parallel: as many threads as
  /// `num_threads` says.
  [[nodiscard]] BatchEncoding operator()(
      const std::vector<std::string>& texts,
      const TokenizerCallOptions& options = {}) const;
  template <std::convertible_to<std::span<const std::string>> Texts>
  [[nodiscard]] BatchEncoding operator()(
      const std::vector<std::string>& texts,
      const Texts& text_pairs,
      const TokenizerCallOptions& options = {}) const {
    return encode_pairs(texts, text_pairs, options);
  }
  [[nodiscard]] BatchEncoding operator()(
      std::initializer_list<std::string> texts,
      const TokenizerCallOptions& options = {}) const;

  /// Encodes a text that comes as words, for labels by word: `word_ids` says
  /// which word a token belongs to.
  [[nodiscard]] Encoding encode_words(
      const std::vector<std::string>& words,
      const TokenizerCallOptions& options = {}) const;
  [[nodiscard]] BatchEncoding encode_words(
      const std::vector<std::vector<std::string>>& texts,
      const TokenizerCallOptions& options = {}) const;

  /// The ids alone.
  [[nodiscard]] std::vector<std::int64_t> encode(
      std::string_view text, const TokenizerCallOptions& options = {}) const;

  /// Returns the text of ids; ids of no token are left out.
  [[nodiscard]] std::string decode(
      const std::vector<std::int64_t>& ids,
      const DecodeOptions& options = {}) const;
  [[nodiscard]] std::vector<std::string> batch_decode(
      const std::vector<std::vector<std::int64_t>>& rows,
      const DecodeOptions& options = {}) const;

  /// Pads rows that were encoded apart to one length; what a data collator
  /// does. Throws `ArgumentError` when there is no padding token.
  [[nodiscard]] BatchEncoding pad(
      std::vector<Encoding> rows, const PadOptions& options = {}) const;

  /// Returns the token of a text or the text of an id, or nothing.
  [[nodiscard]] std::optional<std::int64_t> token_to_id(
      std::string_view token) const;
  [[nodiscard]] std::optional<std::string> id_to_token(std::int64_t id) const;
  /// As above; an unknown token is the unknown token's id, when there is one.
  [[nodiscard]] std::vector<std::int64_t> convert_tokens_to_ids(
      const std::vector<std::string>& tokens) const;
  [[nodiscard]] std::vector<std::string> convert_ids_to_tokens(
      const std::vector<std::int64_t>& ids) const;
  /// The tokens of a text, without special tokens.
  [[nodiscard]] std::vector<std::string> tokenize(std::string_view text) const;

  /// Number of tokens, added ones included; Python's `len(tokenizer)`.
  [[nodiscard]] std::int64_t size() const;
  /// Number of tokens of the model's own vocabulary.
  [[nodiscard]] std::int64_t vocab_size() const;
  [[nodiscard]] std::int64_t num_special_tokens_to_add(bool pair = false) const;

  /// The longest input of the model, or nothing when no file says.
  [[nodiscard]] std::optional<std::int64_t> model_max_length() const;
  [[nodiscard]] Side padding_side() const;
  [[nodiscard]] Side truncation_side() const;
  [[nodiscard]] const std::vector<std::string>& model_input_names() const;

  /// The special tokens by their part: "bos_token", "eos_token", "unk_token",
  /// "sep_token", "pad_token", "cls_token", "mask_token".
  [[nodiscard]] std::optional<std::string> special_token(
      std::string_view part) const;
  [[nodiscard]] std::optional<std::int64_t> special_token_id(
      std::string_view part) const;
  [[nodiscard]] std::optional<std::int64_t> pad_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> unk_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> bos_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> eos_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> cls_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> sep_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> mask_token_id() const;
  /// Every special token's id, smallest first.
  [[nodiscard]] std::vector<std::int64_t> all_special_ids() const;

  /// Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json,
  /// which Python loads. Creates the folder.
  void save_pretrained(const std::filesystem::path& folder) const;

  class Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);

 private:
  // Behind templates, so that options in braces are never taken for a text.
  Encoding encode_pair(
      std::string_view text,
      std::string_view text_pair,
      const TokenizerCallOptions& options) const;
  BatchEncoding encode_pairs(
      std::span<const std::string> texts,
      std::span<const std::string> text_pairs,
      const TokenizerCallOptions& options) const;

  std::shared_ptr<const Impl> impl_;
};

/// Finds out which tokenizer a folder holds.
class TRANSFORMERS_API AutoTokenizer {
 public:
  /// Loads from a folder with tokenizer.json, or with vocab.txt, or with
  /// vocab.json and merges.txt; from the path of a tokenizer.json; or from the
  /// Hub by its name there.
  /// tokenizer_config.json and special_tokens_map.json are read where present.
  ///
  /// Throws `IoError` when nothing there is a tokenizer, `FormatError` naming
  /// file and JSON path when one cannot be read.
  [[nodiscard]] static Tokenizer from_pretrained(
      const std::string& name_or_path, const TokenizerOptions& options = {});
};

}  // namespace transformers
