// SPDX-License-Identifier: Apache-2.0
// Hugging Face Transformers' rules for options that depend on each other.
#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/rows.h"

namespace transformers {

using accelerate::ArgumentError;
using accelerate::str_cat;

namespace {

std::size_t index_of_name(
    const char* option,
    const std::string& name,
    const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return i;
    }
  }
  throw ArgumentError(
      str_cat(
          option,
          " is `",
          name,
          "`, but must be one of ",
          accelerate::join(names, ", ")),
      accelerate::did_you_mean(name, names));
}

}  // namespace

PaddingStrategy::PaddingStrategy(const char* name)
    : value_(static_cast<Value>(index_of_name(
          "padding", name, {"do_not_pad", "longest", "max_length"}))) {
}

TruncationStrategy::TruncationStrategy(const char* name)
    : value_(static_cast<Value>(index_of_name(
          "truncation",
          name,
          {"do_not_truncate", "longest_first", "only_first", "only_second"}))) {
}

namespace tokenizers {
namespace {

void check_positive(
    const char* name, const std::optional<std::int64_t>& value) {
  if (value && *value < 1) {
    throw ArgumentError(
        str_cat(name, " is ", *value),
        str_cat("pass 1 or more, or leave it out"));
  }
}

void resolve_lengths(
    const TokenizerCallOptions& options,
    const TokenizerConfig& config,
    ResolvedOptions& resolved) {
  if (options.max_length) {
    resolved.max_length = *options.max_length;
  } else if (config.model_max_length) {
    resolved.max_length = *config.model_max_length;
  } else {
    // The maximum length is unknown, so do not truncate or pad to it.
    resolved.truncation = false;
    if (resolved.padding == PaddingStrategy::max_length) {
      resolved.padding = false;
    }
  }
}

void check_padding(
    const ResolvedOptions& resolved,
    const TokenizerCallOptions& options,
    const std::optional<std::int64_t>& pad_id) {
  if (resolved.padding == PaddingStrategy::do_not_pad) {
    return;
  }
  if (!pad_id) {
    throw ArgumentError(
        "padding is requested, but the tokenizer has no padding token",
        "load the tokenizer with `.special_tokens = {{\"pad_token\", …}}`; the "
        "padding token can be its `eos_token`");
  }
  if (resolved.truncation != TruncationStrategy::do_not_truncate &&
      options.pad_to_multiple_of &&
      resolved.max_length % *options.pad_to_multiple_of != 0) {
    throw ArgumentError(
        str_cat(
            "max_length is ",
            resolved.max_length,
            ", which is not a multiple of pad_to_multiple_of (",
            *options.pad_to_multiple_of,
            ")"),
        "make max_length a multiple of pad_to_multiple_of");
  }
}

}  // namespace

ResolvedOptions resolve_options(
    const TokenizerCallOptions& options,
    const TokenizerConfig& config,
    std::optional<std::int64_t> pad_id) {
  check_positive("max_length", options.max_length);
  check_positive("pad_to_multiple_of", options.pad_to_multiple_of);
  if (options.stride < 0) {
    throw ArgumentError(
        str_cat("stride is ", options.stride), "pass 0 or more");
  }
  ResolvedOptions resolved;
  resolved.padding = options.padding;
  const bool implied = options.max_length && options.padding.is_false();
  resolved.truncation = options.truncation.value_or(implied);
  resolve_lengths(options, config, resolved);
  check_padding(resolved, options, pad_id);
  resolved.stride = options.stride;
  resolved.pad_to_multiple_of = options.pad_to_multiple_of.value_or(1);
  resolved.padding_side = options.padding_side.value_or(config.padding_side);
  resolved.truncation_side = config.truncation_side;
  resolved.pad_id = pad_id.value_or(0);
  resolved.add_special_tokens = options.add_special_tokens;
  resolved.token_type_ids =
      options.return_token_type_ids.value_or(config.takes("token_type_ids"));
  resolved.attention_mask =
      options.return_attention_mask.value_or(config.takes("attention_mask"));
  resolved.special_tokens_mask = options.return_special_tokens_mask;
  resolved.offsets = options.return_offsets_mapping;
  resolved.words = options.return_word_ids;
  resolved.overflow = options.return_overflowing_tokens;
  return resolved;
}

}  // namespace tokenizers
}  // namespace transformers
