// SPDX-License-Identifier: Apache-2.0
#include "transformers/data_collator.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/mask_tokens.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;
using accelerate::TensorMap;
using Ids = std::vector<std::int64_t>;
using Rows = std::vector<Row>;

void check_padding(const PaddingOptions& options) {
  for (const auto& [name, value] :
       {std::pair("max_length", options.max_length),
        std::pair("pad_to_multiple_of", options.pad_to_multiple_of)}) {
    if (value && *value < 1) {
      throw ArgumentError(
          str_cat("`", name, "` is ", *value), "pass 1 or more");
    }
  }
}

/// Describes the types of a cell, in the order of `Value`.
constexpr std::string_view kCellTypes[] = {
    "missing",
    "a boolean",
    "an integer",
    "a real number",
    "a string",
    "a list of integers",
    "a list of real numbers",
    "a list of strings",
};

/// Returns the name of a cell for error messages.
std::string cell_name(std::size_t row, std::string_view column) {
  return str_cat("row ", row, " of the batch, column `", column, "`: ");
}

template <typename T>
const T& cell(const Rows& rows, std::size_t row, std::string_view column) {
  if (!rows[row].contains(column)) {
    throw ArgumentError(
        str_cat(cell_name(row, column), "the column does not exist"));
  }
  const Value& value = rows[row].at(column);
  if (const T* typed = std::get_if<T>(&value)) {
    return *typed;
  }
  if (value.index() == 0) {
    throw ArgumentError(
        str_cat(cell_name(row, column), "the value is missing"),
        "fill missing values with `map`, or use `filter` to remove rows with "
        "missing values");
  }
  throw ArgumentError(
      str_cat(
          cell_name(row, column),
          "the value is ",
          kCellTypes[value.index()],
          ", but must be ",
          kCellTypes[Value(std::in_place_type<T>).index()]),
      "convert the column with `map`");
}

std::int64_t padded_length(const Rows& rows, const PaddingOptions& options) {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto size =
        static_cast<std::int64_t>(cell<Ids>(rows, i, "input_ids").size());
    if (options.max_length && size > *options.max_length) {
      throw ArgumentError(
          str_cat(
              cell_name(i, "input_ids"),
              size,
              " tokens, but `max_length` is ",
              *options.max_length),
          "truncate the rows when you tokenize them");
    }
    longest = std::max(longest, size);
  }
  const std::int64_t length = options.max_length.value_or(longest);
  const std::int64_t step = options.pad_to_multiple_of.value_or(1);
  return (length + step - 1) / step * step;
}

/// Pads lists that are as long as `input_ids`.
at::Tensor padded(
    const Rows& rows,
    std::string_view column,
    std::int64_t length,
    std::int64_t padding,
    Side side) {
  auto result = at::empty(
      {static_cast<std::int64_t>(rows.size()), length},
      at::TensorOptions().dtype(at::kLong));
  auto* out = result.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < rows.size(); ++i, out += length) {
    const Ids& ids = cell<Ids>(rows, i, column);
    const std::size_t expected = cell<Ids>(rows, i, "input_ids").size();
    if (ids.size() != expected) {
      throw ArgumentError(str_cat(
          cell_name(i, column),
          "the number of values is ",
          ids.size(),
          ", but the number of tokens is ",
          expected));
    }
    const auto gap = length - static_cast<std::int64_t>(ids.size());
    std::fill(out, out + length, padding);
    std::copy(ids.begin(), ids.end(), side == Side::left ? out + gap : out);
  }
  return result;
}

at::Tensor attention_mask(const Rows& rows, std::int64_t length, Side side) {
  Rows ones;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Ids& ids = cell<Ids>(rows, i, "input_ids");
    ones.push_back({{"input_ids", ids}, {"mask", Ids(ids.size(), 1)}});
  }
  return padded(ones, "mask", length, 0, side);
}

template <typename Cell, typename Stored>
at::Tensor numbers(
    const Rows& rows, std::string_view column, c10::ScalarType type) {
  auto result = at::empty(
      {static_cast<std::int64_t>(rows.size())},
      at::TensorOptions().dtype(type));
  auto* out = static_cast<Stored*>(result.mutable_data_ptr());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out[i] = static_cast<Stored>(cell<Cell>(rows, i, column));
  }
  return result;
}

template <typename Element, typename Stored>
at::Tensor lists(
    const Rows& rows, std::string_view column, c10::ScalarType type) {
  using List = std::vector<Element>;
  const std::size_t length = cell<List>(rows, 0, column).size();
  auto result = at::empty(
      {static_cast<std::int64_t>(rows.size()),
       static_cast<std::int64_t>(length)},
      at::TensorOptions().dtype(type));
  auto* out = static_cast<Stored*>(result.mutable_data_ptr());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const List& list = cell<List>(rows, i, column);
    if (list.size() != length) {
      throw ArgumentError(
          str_cat(
              cell_name(i, column),
              "the number of values is ",
              list.size(),
              ", but in row 0 it is ",
              length),
          "remove the column, or use a collator that pads it");
    }
    out = std::transform(list.begin(), list.end(), out, [](Element element) {
      return static_cast<Stored>(element);
    });
  }
  return result;
}

/// Converts a column to a tensor without padding. Row 0 determines its type.
at::Tensor stacked(const Rows& rows, std::string_view column) {
  const Value& first = rows.front().at(column);
  switch (first.index()) {
    case 1:
      return numbers<bool, bool>(rows, column, at::kBool);
    case 2:
      return numbers<std::int64_t, std::int64_t>(rows, column, at::kLong);
    case 3:
      return numbers<double, float>(rows, column, at::kFloat);
    case 5:
      return lists<std::int64_t, std::int64_t>(rows, column, at::kLong);
    case 6:
      return lists<double, float>(rows, column, at::kFloat);
    default:
      throw ArgumentError(
          str_cat(
              cell_name(0, column),
              first.index() == 0 ? "a missing value" : "text",
              " cannot be converted to a tensor"),
          "remove the column with `remove_columns`");
  }
}

/// Pads or stacks all columns except `excluded`.
TensorMap padded_batch(
    const Rows& rows,
    const CollatorTokens& tokens,
    const PaddingOptions& options,
    std::string_view excluded = {}) {
  if (rows.empty()) {
    throw ArgumentError("the collator got no rows");
  }
  const std::int64_t length = padded_length(rows, options);
  const Side side = tokens.padding_side;
  TensorMap batch;
  batch["attention_mask"] = attention_mask(rows, length, side);
  for (const auto& [name, value] : rows.front()) {
    if (name == "input_ids") {
      batch[name] = padded(rows, name, length, tokens.pad_token_id, side);
    } else if (name == "attention_mask") {
      batch[name] = padded(rows, name, length, 0, side);
    } else if (name == "token_type_ids") {
      batch[name] = padded(rows, name, length, tokens.pad_token_type_id, side);
    } else if (name == "special_tokens_mask") {
      batch[name] = padded(rows, name, length, 1, side);
    } else if (name != excluded) {
      const bool label = name == "label" || name == "label_ids";
      batch[label ? "labels" : name] = stacked(rows, name);
    }
  }
  return batch;
}

void check_fraction(const char* name, double value) {
  if (!(value >= 0 && value <= 1)) {
    throw ArgumentError(
        str_cat("`", name, "` is ", value, ", but must be between 0 and 1"));
  }
}

/// Returns a mask that is true for special tokens.
at::Tensor special_tokens(const at::Tensor& ids, const CollatorTokens& tokens) {
  auto special = at::zeros_like(ids, at::TensorOptions().dtype(at::kBool));
  for (const std::int64_t id : tokens.special_token_ids) {
    special = special.logical_or(ids.eq(id));
  }
  return special;
}

/// Hashes the ids with FNV-1a, so that different batches have different seeds.
std::uint64_t seed_of_batch(const at::Tensor& ids, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  const auto* data = ids.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace

CollatorTokens collator_tokens(const Tokenizer& tokenizer) {
  const auto pad = tokenizer.pad_token_id();
  if (!pad) {
    throw accelerate::ArgumentError(
        "the tokenizer has no padding token",
        "load the tokenizer with `{.special_tokens = {{\"pad_token\", …}}}`");
  }
  CollatorTokens tokens;
  tokens.pad_token_id = *pad;
  tokens.padding_side = tokenizer.padding_side();
  tokens.mask_token_id = tokenizer.mask_token_id();
  tokens.vocab_size = tokenizer.size();
  tokens.special_token_ids = tokenizer.all_special_ids();
  return tokens;
}

DataCollatorWithPadding::DataCollatorWithPadding(
    CollatorTokens tokens, const PaddingOptions& options)
    : tokens_(std::move(tokens)), options_(options) {
  check_padding(options_);
}

TensorMap DataCollatorWithPadding::operator()(const Rows& rows) const {
  return padded_batch(rows, tokens_, options_);
}

DataCollatorForLanguageModeling::DataCollatorForLanguageModeling(
    CollatorTokens tokens, const LanguageModelingOptions& options)
    : tokens_(std::move(tokens)), options_(options) {
  check_padding(options_.padding);
  check_fraction("mlm_probability", options_.mlm_probability);
  check_fraction("mask_replace_prob", options_.mask_replace_prob);
  check_fraction("random_replace_prob", options_.random_replace_prob);
  check_fraction(
      "mask_replace_prob + random_replace_prob",
      options_.mask_replace_prob + options_.random_replace_prob);
  if (options_.mlm && (!tokens_.mask_token_id || tokens_.vocab_size < 1)) {
    throw ArgumentError(
        "masked language modeling needs `mask_token_id` and `vocab_size`",
        "set `mlm` to false for a causal model");
  }
}

TensorMap DataCollatorForLanguageModeling::operator()(const Rows& rows) const {
  TensorMap batch = padded_batch(rows, tokens_, options_.padding, "labels");
  at::Tensor& ids = batch["input_ids"];
  const auto mask = batch.find("special_tokens_mask");
  const at::Tensor special = mask != batch.end() ? mask->second.to(at::kBool)
                                                 : special_tokens(ids, tokens_);
  batch.erase("special_tokens_mask");
  if (!options_.mlm) {
    batch["labels"] = ids.masked_fill(ids.eq(tokens_.pad_token_id), -100);
    return batch;
  }
  std::optional<at::Generator> generator;
  if (options_.seed) {
    generator =
        at::detail::createCPUGenerator(seed_of_batch(ids, *options_.seed));
  }
  auto masked = mask_tokens(ids, special, tokens_, options_, generator);
  ids = std::move(masked.input_ids);
  batch["labels"] = std::move(masked.labels);
  return batch;
}

DataCollatorForTokenClassification::DataCollatorForTokenClassification(
    CollatorTokens tokens, const TokenClassificationOptions& options)
    : tokens_(std::move(tokens)), options_(options) {
  check_padding(options_.padding);
}

TensorMap DataCollatorForTokenClassification::operator()(
    const Rows& rows) const {
  const bool has_label = !rows.empty() && rows.front().contains("label");
  const std::string_view name = has_label ? "label" : "labels";
  TensorMap batch = padded_batch(rows, tokens_, options_.padding, name);
  if (rows.front().contains(name)) {
    batch["labels"] = padded(
        rows,
        name,
        batch["input_ids"].size(1),
        options_.label_pad_token_id,
        tokens_.padding_side);
  }
  return batch;
}

}  // namespace transformers
