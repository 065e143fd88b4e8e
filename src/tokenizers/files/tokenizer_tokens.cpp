// SPDX-License-Identifier: Apache-2.0
// Decoding, and queries about tokens.
#include <algorithm>
#include <limits>
#include <set>

#include "base/text.h"
#include "tokenizers/text/unicode.h"
#include "tokenizers/tokenizer_impl.h"

namespace transformers {
namespace {

std::optional<std::string> text_of(
    const tokenizers::Pipeline& pipeline, std::int64_t id) {
  if (id < 0 || id > std::numeric_limits<std::uint32_t>::max()) {
    return std::nullopt;
  }
  const auto narrow = static_cast<std::uint32_t>(id);
  if (const auto* added = pipeline.added_tokens.find(narrow)) {
    return added->display;
  }
  if (const auto text = pipeline.model->vocabulary().text(narrow)) {
    return std::string(*text);
  }
  return std::nullopt;
}

std::string joined(
    const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += i == 0 ? "" : separator;
    text += parts[i];
  }
  return text;
}

// Removes the spaces at both ends, as `str.strip` does in Python.
std::string trimmed(std::string_view text) {
  const auto is_space = [](char32_t c) {
    return tokenizers::is_a(c, tokenizers::kSpace) || (c >= 0x1C && c <= 0x1F);
  };
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t length = 0;
    if (!is_space(tokenizers::read_character(text.data() + begin, length))) {
      break;
    }
    begin += length;
  }
  text.remove_prefix(begin);
  while (!text.empty() && is_space(tokenizers::last_character(text))) {
    do {
      text.remove_suffix(1);
    } while (!text.empty() &&
             (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80);
  }
  return std::string(text);
}

}  // namespace

std::string Tokenizer::decode(
    const std::vector<std::int64_t>& ids, const DecodeOptions& options) const {
  const tokenizers::Pipeline& pipeline = impl_->pipeline();
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    auto text = text_of(pipeline, id);
    if (text && !(options.skip_special_tokens &&
                  pipeline.added_tokens.is_special(*text))) {
      tokens.push_back(std::move(*text));
    }
  }
  std::string text;
  if (pipeline.decoder == nullptr) {
    text = joined(tokens, " ");
  } else {
    pipeline.decoder->decode(tokens);
    text = joined(tokens, "");
  }
  const tokenizers::TokenizerConfig& config = impl_->config();
  if (!config.end_of_word.empty()) {
    text = trimmed(
        accelerate::replace_all(std::move(text), config.end_of_word, " "));
  }
  // The clean-up is for spaces that WordPiece adds. In BPE, spaces are part of
  // the text.
  const bool clean = options.clean_up_tokenization_spaces.value_or(
      config.clean_up_tokenization_spaces);
  return clean && (pipeline.model->name() != "BPE" ||
                   config.clean_up_spaces_of_bpe)
             ? tokenizers::clean_up_tokenization(std::move(text))
             : text;
}

std::vector<std::string> Tokenizer::batch_decode(
    const std::vector<std::vector<std::int64_t>>& rows,
    const DecodeOptions& options) const {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const auto& ids : rows) {
    texts.push_back(decode(ids, options));
  }
  return texts;
}

std::optional<std::int64_t> Tokenizer::token_to_id(
    std::string_view token) const {
  return impl_->id_of(token);
}

std::optional<std::string> Tokenizer::id_to_token(std::int64_t id) const {
  return text_of(impl_->pipeline(), id);
}

std::vector<std::int64_t> Tokenizer::convert_tokens_to_ids(
    const std::vector<std::string>& tokens) const {
  std::vector<std::int64_t> ids;
  for (const std::string& token : tokens) {
    const auto id = impl_->id_of(token);
    if (id || unk_token_id()) {
      ids.push_back(id ? *id : *unk_token_id());
    }
  }
  return ids;
}

std::vector<std::string> Tokenizer::convert_ids_to_tokens(
    const std::vector<std::int64_t>& ids) const {
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    tokens.push_back(text_of(impl_->pipeline(), id).value_or(""));
  }
  return tokens;
}

std::vector<std::string> Tokenizer::tokenize(std::string_view text) const {
  TokenizerCallOptions options;
  options.add_special_tokens = false;
  options.truncation = false;
  return convert_ids_to_tokens(encode(text, options));
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(
      impl_->pipeline().model->vocabulary().size());
}

std::int64_t Tokenizer::size() const {
  std::int64_t size = vocab_size();
  const auto& vocabulary = impl_->pipeline().model->vocabulary();
  for (const auto& token : impl_->pipeline().added_tokens.all()) {
    size += vocabulary.find(token.content) ? 0 : 1;
  }
  return size;
}

std::int64_t Tokenizer::num_special_tokens_to_add(bool pair) const {
  return static_cast<std::int64_t>(
      impl_->pipeline().post_processor.num_special_tokens_to_add(pair));
}

std::optional<std::int64_t> Tokenizer::model_max_length() const {
  return impl_->config().model_max_length;
}

Side Tokenizer::padding_side() const {
  return impl_->config().padding_side;
}

Side Tokenizer::truncation_side() const {
  return impl_->config().truncation_side;
}

const std::vector<std::string>& Tokenizer::model_input_names() const {
  return impl_->config().model_input_names;
}

std::optional<std::string> Tokenizer::special_token(
    std::string_view name) const {
  const auto& tokens = impl_->config().special_tokens;
  const auto found = tokens.find(std::string(name));
  return found == tokens.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> Tokenizer::special_token_id(
    std::string_view name) const {
  const auto token = special_token(name);
  return token ? impl_->id_of(*token) : std::nullopt;
}

std::optional<std::int64_t> Tokenizer::pad_token_id() const {
  return special_token_id("pad_token");
}
std::optional<std::int64_t> Tokenizer::unk_token_id() const {
  return special_token_id("unk_token");
}
std::optional<std::int64_t> Tokenizer::bos_token_id() const {
  return special_token_id("bos_token");
}
std::optional<std::int64_t> Tokenizer::eos_token_id() const {
  return special_token_id("eos_token");
}
std::optional<std::int64_t> Tokenizer::cls_token_id() const {
  return special_token_id("cls_token");
}
std::optional<std::int64_t> Tokenizer::sep_token_id() const {
  return special_token_id("sep_token");
}
std::optional<std::int64_t> Tokenizer::mask_token_id() const {
  return special_token_id("mask_token");
}

std::vector<std::int64_t> Tokenizer::all_special_ids() const {
  std::set<std::int64_t> ids;
  for (const auto& [name, text] : impl_->config().special_tokens) {
    if (const auto id = impl_->id_of(text)) {
      ids.insert(*id);
    }
  }
  for (const std::string& text : impl_->config().extra_special_tokens) {
    if (const auto id = impl_->id_of(text)) {
      ids.insert(*id);
    }
  }
  return {ids.begin(), ids.end()};
}

}  // namespace transformers
