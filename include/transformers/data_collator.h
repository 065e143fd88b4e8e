// SPDX-License-Identifier: Apache-2.0
// Collators turn rows of token ids into a batch of tensors.
//
//     transformers::DataCollatorWithPadding collator(tokenizer);
//     accelerate::DataLoader loader(
//         dataset, {.batch_size = 8, .shuffle = true}, collator);
//
// Every collator pads `input_ids`, `attention_mask` (created when missing),
// `token_type_ids` and `special_tokens_mask` to the same length (see
// `PaddingOptions`). Other columns become tensors without padding; only
// `DataCollatorForTokenClassification` also pads labels. Integers become int64,
// real numbers float, and booleans bool. `label` and `label_ids` are renamed to
// `labels`. A collator throws an `ArgumentError` that names the row and the
// column if it finds text, a missing value, or lists of different lengths in a
// column that is not padded.
//
// Thread safety: any number of threads may use a collator at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accelerate/tensor_map.h"
#include "transformers/dataset.h"
#include "transformers/export.h"
#include "transformers/tokenizer.h"

namespace transformers {

/// The properties of a tokenizer that collators need. The constructor of every
/// collator also accepts the tokenizer itself.
struct CollatorTokens {
  std::int64_t pad_token_id = 0;
  std::int64_t pad_token_type_id = 0;
  Side padding_side = Side::right;
  std::optional<std::int64_t> mask_token_id = std::nullopt;
  std::int64_t vocab_size = 0;
  std::vector<std::int64_t> special_token_ids = {};
};

/// Reads the fields of `CollatorTokens` from a tokenizer. Throws
/// `ArgumentError` when the tokenizer has no padding token.
[[nodiscard]] TRANSFORMERS_API CollatorTokens
collator_tokens(const Tokenizer& tokenizer);

struct PaddingOptions {
  /// The length to pad to. Default: the length of the longest row in the batch.
  /// A row that exceeds `max_length` is an error, because collators do not
  /// truncate.
  std::optional<std::int64_t> max_length = std::nullopt;
  /// Rounds the padded length up to a multiple of this number. Default: no
  /// rounding.
  std::optional<std::int64_t> pad_to_multiple_of = std::nullopt;
};

/// Pads the rows of a batch to the same length.
class TRANSFORMERS_API DataCollatorWithPadding {
 public:
  /// Throws `ArgumentError` if `max_length` or `pad_to_multiple_of` is below 1.
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
  /// Whether to mask tokens for masked language modeling. If false, `labels` is
  /// a copy of `input_ids` with -100 for padding.
  bool mlm = true;
  /// The fraction of tokens that the model must predict.
  double mlm_probability = 0.15;
  /// The fraction of the predicted tokens that is replaced by the mask token.
  double mask_replace_prob = 0.8;
  /// The fraction of the predicted tokens that is replaced by a random token.
  /// The remaining predicted tokens stay unchanged.
  double random_replace_prob = 0.1;
  /// The seed for choosing and replacing tokens. With a seed, the result
  /// depends only on the seed and the batch's token ids, not on the thread.
  /// Default: the random numbers come from LibTorch's default generator.
  std::optional<std::uint64_t> seed = std::nullopt;
  PaddingOptions padding = {};
};

/// Pads the rows and adds `labels`: the original id of each token that the
/// model must predict, and -100 for all other tokens.
///
/// With `mlm`, special tokens are never masked or predicted. The column
/// `special_tokens_mask` marks them and is removed from the batch. If there is
/// no such column, `CollatorTokens::special_token_ids` lists the special
/// tokens.
class TRANSFORMERS_API DataCollatorForLanguageModeling {
 public:
  /// Throws `ArgumentError` if a fraction, or the sum of the two replacement
  /// fractions, is outside [0, 1]; and if `mlm` is true but `tokens` has no
  /// `mask_token_id` or no `vocab_size`.
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

/// Pads the rows and their lists of labels (`labels` or `label`).
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
