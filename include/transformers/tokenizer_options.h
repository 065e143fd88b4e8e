// SPDX-License-Identifier: Apache-2.0
// Options for loading and calling a tokenizer.
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

/// How rows are padded: `longest` (or `true`) pads to the length of the longest
/// row in the batch, `max_length` pads to the `max_length` option, and
/// `do_not_pad` (or `false`) does not pad. The names are also accepted as
/// strings. As in Python, `false` and `do_not_pad` differ in one way: with
/// `false`, setting `max_length` turns on truncation.
class TRANSFORMERS_API PaddingStrategy {
 public:
  enum Value { do_not_pad, longest, max_length };

  constexpr PaddingStrategy(Value value) : value_(value) {}  // NOLINT
  constexpr PaddingStrategy(bool pad)                        // NOLINT
      : value_(pad ? longest : do_not_pad), is_false_(!pad) {}
  /// Throws `ArgumentError` for an unknown name.
  PaddingStrategy(const char* name);  // NOLINT
  constexpr operator Value() const { return value_; }
  /// Returns whether the strategy was given as `false`, not as `do_not_pad`.
  constexpr bool is_false() const { return is_false_; }

 private:
  Value value_;
  bool is_false_ = false;
};

/// Which text of a pair is shortened when the input is too long:
/// `longest_first` (or `true`) shortens the longer text first, `only_first`
/// shortens only the first text, `only_second` only the second text, and
/// `do_not_truncate` (or `false`) shortens neither. The names are also accepted
/// as strings.
class TRANSFORMERS_API TruncationStrategy {
 public:
  enum Value { do_not_truncate, longest_first, only_first, only_second };

  constexpr TruncationStrategy(Value value) : value_(value) {}  // NOLINT
  constexpr TruncationStrategy(bool truncate)                   // NOLINT
      : value_(truncate ? longest_first : do_not_truncate) {}
  /// Throws `ArgumentError` for an unknown name.
  TruncationStrategy(const char* name);  // NOLINT
  constexpr operator Value() const { return value_; }

 private:
  Value value_;
};

/// Options for encoding text. Unless a field says otherwise, an optional field
/// that is not set takes its value from the tokenizer's files.
struct TokenizerCallOptions {
  bool add_special_tokens = true;
  PaddingStrategy padding = false;
  /// How a text that is too long is shortened. Default: `longest_first` if
  /// `max_length` is set and `padding` is `false`; otherwise `do_not_truncate`.
  std::optional<TruncationStrategy> truncation = std::nullopt;
  /// The maximum number of tokens in a row, including special tokens. Default:
  /// the model's maximum input length.
  std::optional<std::int64_t> max_length = std::nullopt;
  /// Number of tokens that each overflowing part shares with the previous part.
  std::int64_t stride = 0;
  /// Rounds the padded length up to a multiple of this number. Default: no
  /// rounding.
  std::optional<std::int64_t> pad_to_multiple_of = std::nullopt;
  std::optional<Side> padding_side = std::nullopt;
  std::optional<bool> return_token_type_ids = std::nullopt;
  std::optional<bool> return_attention_mask = std::nullopt;
  bool return_special_tokens_mask = false;
  /// Whether to return the range of characters that each token covers.
  bool return_offsets_mapping = false;
  /// Whether to return `word_ids` and `sequence_ids`: the word and the text (0
  /// or 1) that each token belongs to.
  bool return_word_ids = false;
  /// Whether to return the parts that truncation cut off: as additional rows in
  /// a batch, or in `Encoding::overflowing` for a single text.
  bool return_overflowing_tokens = false;
  /// Maximum number of threads that encode a batch. If 0, one thread per
  /// logical CPU core.
  int num_threads = 0;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
  /// Whether to remove spaces before punctuation. Default: the value in
  /// tokenizer_config.json.
  std::optional<bool> clean_up_tokenization_spaces = std::nullopt;
};

struct PadOptions {
  PaddingStrategy padding = true;
  std::optional<std::int64_t> max_length = std::nullopt;
  std::optional<std::int64_t> pad_to_multiple_of = std::nullopt;
  std::optional<Side> padding_side = std::nullopt;
};

/// Options for loading a tokenizer. If an optional field is not set, its value
/// comes from the tokenizer's files.
struct TokenizerOptions {
  std::optional<Side> padding_side = std::nullopt;
  std::optional<Side> truncation_side = std::nullopt;
  std::optional<std::int64_t> model_max_length = std::nullopt;
  /// Whether to insert a space before the first word. Loading throws
  /// `ArgumentError` when the tokenizer's class does not have this setting.
  std::optional<bool> add_prefix_space = std::nullopt;
  /// Special tokens by name, such as `{{"pad_token", "<|endoftext|>"}}`. Tokens
  /// that are not in the vocabulary are added to it.
  std::map<std::string, std::string> special_tokens = {};
  /// For a model on the Hub: its revision, and how to download it.
  hub::ResolveOptions hub = {.content = hub::Content::tokenizer};
};

}  // namespace transformers
