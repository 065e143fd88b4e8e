// SPDX-License-Identifier: Apache-2.0
// The peer's rules for options that depend on each other.
#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/tokenizers/rows.h"

namespace transformers {

using accelerate::ArgumentError;
using accelerate::str_cat;

namespace {

std::size_t word_index(
    const char* option,
    const std::string& word,
    const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) {
      return i;
    }
  }
  throw ArgumentError(
      str_cat(
          option,
          " `",
          word,
          "` is not one of ",
          accelerate::join(words, ", ")),
      accelerate::did_you_mean(word, words));
}

}  // namespace

PaddingStrategy::PaddingStrategy(const char* word)
    : value_(static_cast<Value>(word_index(
          "padding", word, {"do_not_pad", "longest", "max_length"}))) {
}

TruncationStrategy::TruncationStrategy(const char* word)
    : value_(static_cast<Value>(word_index(
          "truncation",
          word,
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

void settle_lengths(
    const TokenizerCallOptions& options,
    const Settings& settings,
    RowPlan& plan) {
  if (options.max_length) {
    plan.max_length = *options.max_length;
  } else if (settings.model_max_length) {
    plan.max_length = *settings.model_max_length;
  } else {
    // Nobody knows a length, so there is none to truncate or pad to.
    plan.truncation = false;
    if (plan.padding == PaddingStrategy::max_length) {
      plan.padding = false;
    }
  }
}

void check_padding(
    const RowPlan& plan,
    const TokenizerCallOptions& options,
    const std::optional<std::int64_t>& pad_id) {
  if (plan.padding == PaddingStrategy::do_not_pad) {
    return;
  }
  if (!pad_id) {
    throw ArgumentError(
        "padding is asked for, and the tokenizer has no padding token",
        "load it with .special_tokens = {{\"pad_token\", …}}, for example "
        "its \"eos_token\"");
  }
  if (plan.truncation != TruncationStrategy::do_not_truncate &&
      options.pad_to_multiple_of &&
      plan.max_length % *options.pad_to_multiple_of != 0) {
    throw ArgumentError(
        str_cat(
            "max_length is ",
            plan.max_length,
            ", not a multiple of pad_to_multiple_of, which is ",
            *options.pad_to_multiple_of),
        "make one a multiple of the other");
  }
}

}  // namespace

RowPlan make_plan(
    const TokenizerCallOptions& options,
    const Settings& settings,
    std::optional<std::int64_t> pad_id) {
  check_positive("max_length", options.max_length);
  check_positive("pad_to_multiple_of", options.pad_to_multiple_of);
  if (options.stride < 0) {
    throw ArgumentError(
        str_cat("stride is ", options.stride), "pass 0 or more");
  }
  RowPlan plan;
  plan.padding = options.padding;
  const bool implied =
      options.max_length && options.padding == PaddingStrategy::do_not_pad;
  plan.truncation = options.truncation.value_or(implied);
  settle_lengths(options, settings, plan);
  check_padding(plan, options, pad_id);
  plan.stride = options.stride;
  plan.pad_to_multiple_of = options.pad_to_multiple_of.value_or(1);
  plan.padding_side = options.padding_side.value_or(settings.padding_side);
  plan.truncation_side = settings.truncation_side;
  plan.pad_id = pad_id.value_or(0);
  plan.pad_type_id = settings.pad_token_type_id;
  plan.add_special_tokens = options.add_special_tokens;
  plan.token_type_ids =
      options.return_token_type_ids.value_or(settings.takes("token_type_ids"));
  plan.attention_mask =
      options.return_attention_mask.value_or(settings.takes("attention_mask"));
  plan.special_tokens_mask = options.return_special_tokens_mask;
  plan.offsets = options.return_offsets_mapping;
  plan.words = options.return_word_ids;
  plan.overflow = options.return_overflowing_tokens;
  return plan;
}

}  // namespace tokenizers
}  // namespace transformers
