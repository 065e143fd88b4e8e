// SPDX-License-Identifier: Apache-2.0
// How a tokenizer is loaded and called.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "transformers/export.h"
#include "transformers/hub.h"

namespace transformers {

enum class Side { right, left };

/// Which rows are padded, and to what. Also written `true` (the longest row
/// of the batch), `false`, or as Python's words.
class TRANSFORMERS_API PaddingStrategy {
 public:
  enum Value { do_not_pad, longest, max_length };

  constexpr PaddingStrategy(Value value) : value_(value) {}  // NOLINT
  constexpr PaddingStrategy(bool pad)                        // NOLINT
      : value_(pad ? longest : do_not_pad) {}
  /// Throws `ArgumentError` for another word.
  PaddingStrategy(const char* word);  // NOLINT
  constexpr operator Value() const { return value_; }

 private:
  Value value_;
};

/// What is cut when a text is too long. Also written `true` (the longer text
/// of a pair first), `false`, or as Python's words.
class TRANSFORMERS_API TruncationStrategy {
 public:
  enum Value { do_not_truncate, longest_first, only_first, only_second };

  constexpr TruncationStrategy(Value value) : value_(value) {}  // NOLINT
  constexpr TruncationStrategy(bool truncate)                   // NOLINT
      : value_(truncate ? longest_first : do_not_truncate) {}
  /// Throws `ArgumentError` for another word.
  TruncationStrategy(const char* word);  // NOLINT
  constexpr operator Value() const { return value_; }

 private:
  Value value_;
};

/// How text is encoded. A field left out follows the tokenizer's own files.
struct TokenizerCallOptions {
  bool add_special_tokens = true;
  PaddingStrategy padding = false;
  /// Left out, a `max_length` without padding truncates the longest first.
  std::optional<TruncationStrategy> truncation = std::nullopt;
  /// Left out, the model's longest input.
  std::optional<std::int64_t> max_length = std::nullopt;
  /// Tokens that a part cut off has in common with the part before.
  std::int64_t stride = 0;
  std::optional<std::int64_t> pad_to_multiple_of = std::nullopt;
  std::optional<Side> padding_side = std::nullopt;
  std::optional<bool> return_token_type_ids = std::nullopt;
  std::optional<bool> return_attention_mask = std::nullopt;
  bool return_special_tokens_mask = false;
  /// The characters each token stands for.
  bool return_offsets_mapping = false;
  /// The word and the text (0 or 1) each token belongs to.
  bool return_word_ids = false;
  /// What was cut off, as further rows.
  bool return_overflowing_tokens = false;
  /// Threads for a batch; 0 is one per processor.
  int num_threads = 0;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
  /// Left out, what tokenizer_config.json says.
  std::optional<bool> clean_up_tokenization_spaces = std::nullopt;
};

struct PadOptions {
  PaddingStrategy padding = true;
  std::optional<std::int64_t> max_length = std::nullopt;
  std::optional<std::int64_t> pad_to_multiple_of = std::nullopt;
  std::optional<Side> padding_side = std::nullopt;
};

/// How a tokenizer is loaded. A field left out follows the files.
struct TokenizerOptions {
  std::optional<Side> padding_side = std::nullopt;
  std::optional<Side> truncation_side = std::nullopt;
  std::optional<std::int64_t> model_max_length = std::nullopt;
  /// Whether the first word gets a space before it (GPT-2, RoBERTa).
  std::optional<bool> add_prefix_space = std::nullopt;
  /// Special tokens by part: {{"pad_token", "<|endoftext|>"}}. A token that
  /// the vocabulary lacks is added to it.
  std::map<std::string, std::string> special_tokens = {};
  /// Which revision of a model on the Hub, and how it is fetched.
  hub::ResolveOptions hub = {.content = hub::Content::tokenizer};
};

}  // namespace transformers
