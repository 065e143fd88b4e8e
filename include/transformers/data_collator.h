// SPDX-License-Identifier: Apache-2.0
// Rows of token ids become a batch of tensors.
//
//     transformers::DataCollatorWithPadding collator(tokenizer);
//     accelerate::DataLoader loader(
//         dataset, {.batch_size = 8, .shuffle = true}, collator);
//
// Every collator pads `input_ids` to the longest row of the batch, and with it
// `attention_mask` (made when there is none), `token_type_ids` and
// `special_tokens_mask`. Other columns become tensors as they are: integers
// int64, real numbers float, truth values bool; `label` and `label_ids` are
// called `labels`. Each throws `ArgumentError` that names row and column for
// text, for a missing value and for lists of unequal lengths.
//
// Thread safety: any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accelerate/tensor_map.h"
#include "transformers/dataset.h"
#include "transformers/export.h"
#include "transformers/tokenizer.h"

namespace transformers {

/// What a collator must know of a tokenizer; each collator also takes the
/// tokenizer itself.
struct CollatorTokens {
  std::int64_t pad_token_id = 0;
  std::int64_t pad_token_type_id = 0;
  Side padding_side = Side::right;
  std::optional<std::int64_t> mask_token_id = std::nullopt;
  std::int64_t vocab_size = 0;
  std::vector<std::int64_t> special_token_ids = {};
};

/// Throws `ArgumentError` when the tokenizer has no padding token.
[[nodiscard]] TRANSFORMERS_API CollatorTokens
collator_tokens(const Tokenizer& tokenizer);

struct PaddingOptions {
  /// Pads to this length; left out: to the longest row. A longer row is an
  /// error: collators do not truncate.
  std::optional<std::int64_t> max_length = std::nullopt;
  /// Rounds the length up to a multiple of this.
  std::optional<std::int64_t> pad_to_multiple_of = std::nullopt;
};

/// Pads, and nothing more.
class TRANSFORMERS_API DataCollatorWithPadding {
 public:
  /// Throws `ArgumentError` for lengths below 1.
  explicit DataCollatorWithPadding(
      CollatorTokens tokens, const PaddingOptions& options = {});
  explicit DataCollatorWithPadding(
      const Tokenizer& tokenizer, const PaddingOptions& options = {})
      : DataCollatorWithPadding(collator_tokens(tokenizer), options) {}

  [[nodiscard]] accelerate::TensorMap operator()(
      const std::vector<Row>& rows) const;

 private:
  CollatorTokens tokens_;
  PaddingOptions options_;
};

struct LanguageModelingOptions {
  /// Masked language modeling; off: the labels are the inputs.
  bool mlm = true;
  /// The share of tokens to predict.
  double mlm_probability = 0.15;
  /// Of those, the shares that become the mask and another token; the rest
  /// stays as it is.
  double mask_replace_prob = 0.8;
  double random_replace_prob = 0.1;
  /// Makes the choice a function of this and of the batch's ids, whichever
  /// thread is asked. Left out: LibTorch's default generator chooses.
  std::optional<std::uint64_t> seed = std::nullopt;
  PaddingOptions padding = {};
};

/// Adds `labels` to predict: -100 where there is nothing to learn.
///
/// Special tokens are never chosen: those of the column `special_tokens_mask`,
/// which goes, or else those of `CollatorTokens`.
class TRANSFORMERS_API DataCollatorForLanguageModeling {
 public:
  /// Throws `ArgumentError` for shares that are none, and when masks are
  /// wanted without a mask token or the size of the vocabulary.
  explicit DataCollatorForLanguageModeling(
      CollatorTokens tokens, const LanguageModelingOptions& options = {});
  explicit DataCollatorForLanguageModeling(
      const Tokenizer& tokenizer, const LanguageModelingOptions& options = {})
      : DataCollatorForLanguageModeling(collator_tokens(tokenizer), options) {}

  [[nodiscard]] accelerate::TensorMap operator()(
      const std::vector<Row>& rows) const;

 private:
  CollatorTokens tokens_;
  LanguageModelingOptions options_;
};

struct TokenClassificationOptions {
  std::int64_t label_pad_token_id = -100;
  PaddingOptions padding = {};
};

/// Pads the lists of labels (`labels` or `label`) as well.
class TRANSFORMERS_API DataCollatorForTokenClassification {
 public:
  explicit DataCollatorForTokenClassification(
      CollatorTokens tokens, const TokenClassificationOptions& options = {});
  explicit DataCollatorForTokenClassification(
      const Tokenizer& tokenizer,
      const TokenClassificationOptions& options = {})
      : DataCollatorForTokenClassification(
            collator_tokens(tokenizer), options) {}

  [[nodiscard]] accelerate::TensorMap operator()(
      const std::vector<Row>& rows) const;

 private:
  CollatorTokens tokens_;
  TokenClassificationOptions options_;
};

}  // namespace transformers
