// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizer.h"

#include <algorithm>
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tokenizers/batch.h"
#include "tokenizers/tokenizer_impl.h"

namespace transformers {

using accelerate::ArgumentError;
using accelerate::str_cat;
using tokenizers::Engine;
using tokenizers::ResolvedOptions;
using tokenizers::Tokens;
using tokenizers::Workspace;

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl)
    : impl_(std::move(impl)) {
}

std::optional<std::int64_t> Tokenizer::Impl::id_of(
    std::string_view token) const {
  if (const auto* added = pipeline().added_tokens.find(token)) {
    return added->id;
  }
  return pipeline().model->vocabulary().find(token);
}

ResolvedOptions Tokenizer::Impl::resolve(
    const TokenizerCallOptions& options) const {
  const auto pad = config_.special_tokens.find("pad_token");
  return tokenizers::resolve_options(
      options,
      config_,
      pad == config_.special_tokens.end() ? std::nullopt : id_of(pad->second));
}

namespace {

// The input of a row: a text, or its words.
struct Source {
  std::string_view text;
  const std::vector<std::string>* words = nullptr;
};

void encode_source(
    const Engine& engine,
    const Source& source,
    const ResolvedOptions& resolved,
    Workspace& workspace,
    Tokens& tokens) {
  tokens.clear();
  if (source.words == nullptr) {
    engine.encode(source.text, resolved.tracks(), workspace, tokens);
    return;
  }
  for (std::size_t i = 0; i < source.words->size(); ++i) {
    const std::size_t before = tokens.words.size();
    engine.encode((*source.words)[i], resolved.tracks(), workspace, tokens);
    std::fill(
        tokens.words.begin() + static_cast<std::ptrdiff_t>(before),
        tokens.words.end(),
        static_cast<std::uint32_t>(i));
  }
}

Encoding encode_row(
    const Engine& engine,
    const Source& first,
    const Source* second,
    const ResolvedOptions& resolved,
    Workspace& workspace) {
  thread_local Tokens tokens;
  thread_local Tokens pair_tokens;
  encode_source(engine, first, resolved, workspace, tokens);
  if (second != nullptr) {
    encode_source(engine, *second, resolved, workspace, pair_tokens);
  }
  return tokenizers::make_row(
      tokens,
      second == nullptr ? nullptr : &pair_tokens,
      engine.pipeline().post_processor,
      resolved);
}

Encoding encode_one(
    const Tokenizer::Impl& impl,
    const Source& first,
    const Source* second,
    const TokenizerCallOptions& options) {
  const ResolvedOptions resolved = impl.resolve(options);
  Engine::Lease workspace(impl.engine());
  std::vector<Encoding> rows;
  rows.push_back(
      encode_row(impl.engine(), first, second, resolved, *workspace));
  tokenizers::pad_rows(rows, resolved);
  return std::move(rows.front());
}

// Moves all rows into the batch. The rows for the parts that truncation cut off
// follow the first row of their text.
BatchEncoding flatten(
    std::vector<Encoding> rows, const ResolvedOptions& resolved) {
  BatchEncoding batch;
  if (!resolved.overflow) {
    batch.rows = std::move(rows);
    return batch;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<Encoding> rest = std::move(rows[i].overflowing);
    rows[i].overflowing.clear();
    batch.rows.push_back(std::move(rows[i]));
    std::move(rest.begin(), rest.end(), std::back_inserter(batch.rows));
    batch.overflow_to_sample_mapping.resize(
        batch.rows.size(), static_cast<std::int64_t>(i));
  }
  return batch;
}

template <typename First, typename Second>
BatchEncoding encode_batch(
    const Tokenizer::Impl& impl,
    std::size_t count,
    std::size_t bytes,
    First first,
    Second second,
    const TokenizerCallOptions& options) {
  const ResolvedOptions resolved = impl.resolve(options);
  std::vector<Encoding> rows(count);
  tokenizers::for_each_text(
      impl.engine(),
      count,
      bytes,
      options.num_threads,
      [&](std::size_t i, Workspace& workspace) {
        const Source a = first(i);
        const std::optional<Source> b = second(i);
        rows[i] = encode_row(
            impl.engine(), a, b ? &*b : nullptr, resolved, workspace);
      });
  tokenizers::pad_rows(rows, resolved);
  return flatten(std::move(rows), resolved);
}

std::size_t bytes_of(std::span<const std::string> texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size();
  }
  return bytes;
}

std::optional<Source> no_pair(std::size_t) {
  return std::nullopt;
}

}  // namespace

Encoding Tokenizer::operator()(
    std::string_view text, const TokenizerCallOptions& options) const {
  return encode_one(*impl_, {text}, nullptr, options);
}

Encoding Tokenizer::encode_pair(
    std::string_view text,
    std::string_view text_pair,
    const TokenizerCallOptions& options) const {
  const Source second{text_pair};
  return encode_one(*impl_, {text}, &second, options);
}

BatchEncoding Tokenizer::operator()(
    const std::vector<std::string>& texts,
    const TokenizerCallOptions& options) const {
  return encode_batch(
      *impl_,
      texts.size(),
      bytes_of(texts),
      [&](std::size_t i) { return Source{texts[i]}; },
      no_pair,
      options);
}

BatchEncoding Tokenizer::operator()(
    std::initializer_list<std::string> texts,
    const TokenizerCallOptions& options) const {
  return (*this)(std::vector<std::string>(texts), options);
}

BatchEncoding Tokenizer::encode_pairs(
    std::span<const std::string> texts,
    std::span<const std::string> text_pairs,
    const TokenizerCallOptions& options) const {
  if (texts.size() != text_pairs.size()) {
    throw ArgumentError(
        str_cat(
            "the size of `texts` is ",
            texts.size(),
            ", but the size of `text_pairs` is ",
            text_pairs.size()),
        "pass one text in `text_pairs` for each text in `texts`");
  }
  return encode_batch(
      *impl_,
      texts.size(),
      bytes_of(texts) + bytes_of(text_pairs),
      [&](std::size_t i) { return Source{texts[i]}; },
      [&](std::size_t i) { return std::optional(Source{text_pairs[i]}); },
      options);
}

Encoding Tokenizer::encode_words(
    const std::vector<std::string>& words,
    const TokenizerCallOptions& options) const {
  return encode_one(*impl_, {{}, &words}, nullptr, options);
}

BatchEncoding Tokenizer::encode_words(
    const std::vector<std::vector<std::string>>& texts,
    const TokenizerCallOptions& options) const {
  std::size_t bytes = 0;
  for (const auto& words : texts) {
    bytes += bytes_of(words);
  }
  return encode_batch(
      *impl_,
      texts.size(),
      bytes,
      [&](std::size_t i) { return Source{{}, &texts[i]}; },
      no_pair,
      options);
}

std::vector<std::int64_t> Tokenizer::encode(
    std::string_view text, const TokenizerCallOptions& options) const {
  return (*this)(text, options).input_ids;
}

BatchEncoding Tokenizer::pad(
    std::vector<Encoding> rows, const PadOptions& options) const {
  TokenizerCallOptions call;
  call.padding = options.padding;
  call.truncation = false;
  call.max_length = options.max_length;
  call.pad_to_multiple_of = options.pad_to_multiple_of;
  call.padding_side = options.padding_side;
  ResolvedOptions resolved = impl_->resolve(call);
  resolved.token_type_ids = false;  // Keeps the vectors of the rows unchanged.
  BatchEncoding batch{std::move(rows), {}};
  tokenizers::pad_rows(batch.rows, resolved);
  return batch;
}

}  // namespace transformers
