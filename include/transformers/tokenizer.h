// SPDX-License-Identifier: Apache-2.0
// Converts text to token ids and back. Token ids and offsets are the same as in
// Hugging Face Transformers.
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

/// An immutable tokenizer; copies share the same data.
///
/// Every function that takes text throws `ArgumentError` when the text is not
/// UTF-8.
///
/// Thread safety: any number of threads may use a tokenizer at the same time.
class TRANSFORMERS_API Tokenizer {
 public:
  /// Encodes one text, or a pair of texts that the model receives together.
  ///
  /// Throws `ArgumentError` when the options contradict each other, or when
  /// the text cannot be truncated as requested.
  [[nodiscard]] Encoding operator()(
      std::string_view text, const TokenizerCallOptions& options = {}) const;
  template <std::convertible_to<std::string_view> Text>
  [[nodiscard]] Encoding operator()(
      std::string_view text,
      const Text& text_pair,
      const TokenizerCallOptions& options = {}) const {
    return encode_pair(text, text_pair, options);
  }

  /// Encodes a batch of texts, or of pairs of texts, in parallel.
  /// `options.num_threads` limits the number of threads.
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

  /// Encodes a text that is already split into words. For word-level labels,
  /// set `return_word_ids`: `word_ids` then contains the index of the word that
  /// each token belongs to.
  [[nodiscard]] Encoding encode_words(
      const std::vector<std::string>& words,
      const TokenizerCallOptions& options = {}) const;
  [[nodiscard]] BatchEncoding encode_words(
      const std::vector<std::vector<std::string>>& texts,
      const TokenizerCallOptions& options = {}) const;

  /// Encodes a text and returns only the token ids.
  [[nodiscard]] std::vector<std::int64_t> encode(
      std::string_view text, const TokenizerCallOptions& options = {}) const;

  /// Converts token ids to text. Skips ids that are not in the vocabulary.
  [[nodiscard]] std::string decode(
      const std::vector<std::int64_t>& ids,
      const DecodeOptions& options = {}) const;
  [[nodiscard]] std::vector<std::string> batch_decode(
      const std::vector<std::vector<std::int64_t>>& rows,
      const DecodeOptions& options = {}) const;

  /// Pads separately encoded rows to the same length, as a data collator does.
  /// Throws `ArgumentError` when the tokenizer has no padding token.
  [[nodiscard]] BatchEncoding pad(
      std::vector<Encoding> rows, const PadOptions& options = {}) const;

  /// Convert a token to its id, or an id to its token. Both functions return
  /// `nullopt` when the vocabulary does not contain the token or the id.
  [[nodiscard]] std::optional<std::int64_t> token_to_id(
      std::string_view token) const;
  [[nodiscard]] std::optional<std::string> id_to_token(std::int64_t id) const;
  /// Convert tokens to ids, or ids to tokens. A token that is not in the
  /// vocabulary gets the id of the unknown token, or is left out if the
  /// tokenizer has no unknown token. An id that is not in the vocabulary
  /// becomes an empty string.
  [[nodiscard]] std::vector<std::int64_t> convert_tokens_to_ids(
      const std::vector<std::string>& tokens) const;
  [[nodiscard]] std::vector<std::string> convert_ids_to_tokens(
      const std::vector<std::int64_t>& ids) const;
  /// Splits a text into tokens, without adding special tokens.
  [[nodiscard]] std::vector<std::string> tokenize(std::string_view text) const;

  /// Returns the number of tokens, including added tokens. Corresponds to
  /// `len(tokenizer)` in Python.
  [[nodiscard]] std::int64_t size() const;
  /// Returns the number of tokens in the model's vocabulary, without added
  /// tokens.
  [[nodiscard]] std::int64_t vocab_size() const;
  [[nodiscard]] std::int64_t num_special_tokens_to_add(bool pair = false) const;

  /// Returns the model's maximum input length; empty when no file specifies it.
  [[nodiscard]] std::optional<std::int64_t> model_max_length() const;
  [[nodiscard]] Side padding_side() const;
  [[nodiscard]] Side truncation_side() const;
  [[nodiscard]] const std::vector<std::string>& model_input_names() const;

  /// Returns the special token with this name: "bos_token", "eos_token",
  /// "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", or a
  /// name that tokenizer_config.json defines, such as "image_token". Returns
  /// `nullopt` if the tokenizer does not have this token.
  [[nodiscard]] std::optional<std::string> special_token(
      std::string_view name) const;
  [[nodiscard]] std::optional<std::int64_t> special_token_id(
      std::string_view name) const;
  [[nodiscard]] std::optional<std::int64_t> pad_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> unk_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> bos_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> eos_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> cls_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> sep_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> mask_token_id() const;
  /// Returns the ids of all special tokens in ascending order.
  [[nodiscard]] std::vector<std::int64_t> all_special_ids() const;

  /// Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json
  /// in the format that Hugging Face Transformers loads. Creates the folder if
  /// it does not exist.
  void save_pretrained(const std::filesystem::path& folder) const;

  class Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);

 private:
  // The public overloads for pairs are templates, so that options in braces are
  // never mistaken for a text.
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

/// Loads any supported type of tokenizer.
class TRANSFORMERS_API AutoTokenizer {
 public:
  /// Loads a tokenizer. `name_or_path` is a folder, the path of a
  /// tokenizer.json, or the name of a model on the Hub. A folder must contain
  /// tokenizer.json, or vocab.txt, or both vocab.json and merges.txt.
  /// tokenizer_config.json, special_tokens_map.json, added_tokens.json and
  /// config.json are also read if they exist. `tokenizer_class` or `model_type`
  /// in these files selects the tokenizer class, as in Hugging Face
  /// Transformers 5.
  ///
  /// Throws `IoError` when the folder contains no tokenizer, `FormatError` with
  /// the file and the JSON path when a file is malformed, and
  /// `UnsupportedError` with the name of the class when the class is not
  /// supported.
  [[nodiscard]] static Tokenizer from_pretrained(
      const std::string& name_or_path, const TokenizerOptions& options = {});
};

}  // namespace transformers
