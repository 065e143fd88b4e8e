// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/classes/class_pipeline.h"

#include <algorithm>
#include <map>
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::tokenizers {

using accelerate::Json;
using accelerate::str_cat;

namespace {

using Processing = TokenizerClass::Processing;

// Converts a token without flags to the form that the class uses.
TokenValue in_form(TokenValue token, TokenParameter::Form form) {
  if (token.is_text && form != TokenParameter::Form::text) {
    token.is_text = false;
    token.lstrip = form == TokenParameter::Form::lstrip;
  }
  return token;
}

void set_special_tokens(const TokenizerClass& kind, ClassArguments& arguments) {
  for (const TokenParameter& parameter : kind.special_tokens) {
    auto& token =
        arguments.special_tokens
            .try_emplace(
                parameter.name,
                parameter.text == nullptr
                    ? std::nullopt
                    : std::optional(TokenValue::from_text(parameter.text)))
            .first->second;
    if (token) {
      token = in_form(std::move(*token), parameter.form);
    }
  }
}

}  // namespace

void complete_arguments(
    const TokenizerClass& kind,
    const SavedCallSettings& settings,
    ClassArguments& arguments) {
  if (kind.adjust != nullptr) {
    kind.adjust(arguments);
  }
  set_special_tokens(kind, arguments);
  if (!arguments.extra_special_tokens) {
    arguments.extra_special_tokens = arguments.additional_special_tokens;
  }
  const auto set_side = [&](const char* key, const std::optional<Side>& side) {
    if (side && !arguments.values.contains(key)) {
      arguments.values[key] = *side == Side::left ? "left" : "right";
    }
  };
  set_side("truncation_side", settings.truncation_side);
  set_side("padding_side", settings.padding_side);
  if (settings.pad_token) {
    arguments.set_default(
        "pad_token", TokenValue::from_text(*settings.pad_token));
  }
}

namespace {

// Throws if the model has a different type from the one that the class
// supports.
void check_model(
    const TokenizerClass& kind,
    const Json& tokenizer_json,
    const ModelText& text,
    const std::string& source) {
  const JsonNode model = JsonNode(tokenizer_json, source, "$").at("model");
  const std::string type = model_type_of(model, text);
  if (kind.model == nullptr || type == kind.model) {
    return;
  }
  throw accelerate::FormatError(
      str_cat(
          source,
          ": $.model: the tokenizer class `",
          kind.name,
          "` needs a ",
          kind.model,
          " model, but the type is `",
          accelerate::printable(type),
          "`"),
      "to use tokenizer.json as it is, set `tokenizer_class` to "
      "`PreTrainedTokenizerFast` in tokenizer_config.json");
}

Json describe(
    const TokenizerClass& kind,
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText& text) {
  const auto section = [&](const char* key) {
    const Json* value =
        tokenizer_json == nullptr ? nullptr : tokenizer_json->find(key);
    return value == nullptr ? Json() : *value;
  };
  Json description = Json::object(
      {{"version", "1.0"},
       {"truncation", section("truncation")},
       {"padding", section("padding")},
       {"added_tokens", Json::array()},
       {"normalizer", nullptr},
       {"pre_tokenizer", nullptr},
       {"post_processor", section("post_processor")},
       {"decoder", nullptr},
       {"model", nullptr}});
  kind.describe(arguments, tokenizer_json, text, description);
  return description;
}

// All named tokens, in the order in which they are added.
std::vector<const TokenValue*> named_tokens(const ClassArguments& arguments) {
  std::vector<const TokenValue*> tokens;
  for (const std::string& name : special_token_names()) {
    const auto found = arguments.special_tokens.find(name);
    if (found != arguments.special_tokens.end() && found->second) {
      tokens.push_back(&*found->second);
    }
  }
  for (const auto& [name, token] : arguments.model_tokens) {
    tokens.push_back(&token);
  }
  return tokens;
}

// Returns the named tokens, followed by the other special tokens.
std::vector<const TokenValue*> all_special_tokens(
    const ClassArguments& arguments) {
  std::vector<const TokenValue*> tokens = named_tokens(arguments);
  if (arguments.extra_special_tokens) {
    for (const TokenValue& token : *arguments.extra_special_tokens) {
      tokens.push_back(&token);
    }
  }
  return tokens;
}

// Tokens with an id come first, followed by the remaining special tokens. A
// special token is added twice if it has two names and different flags.
std::vector<TokenValue> tokens_to_add(
    const ClassArguments& arguments, const Pipeline& pipeline) {
  std::vector<TokenValue> tokens;
  std::set<std::string_view> known;
  for (const AddedToken& token : pipeline.added_tokens.all()) {
    known.insert(token.content);
  }
  for (const auto& [id, token] : arguments.added_tokens) {
    tokens.push_back(token);
    known.insert(token.content);
  }
  std::multimap<std::string_view, const TokenValue*> added;
  for (const TokenValue* token : all_special_tokens(arguments)) {
    const auto [first, last] = added.equal_range(token->content);
    const bool is_added = std::any_of(first, last, [&](const auto& entry) {
      return *entry.second == *token;
    });
    if (!known.contains(token->content) && !is_added) {
      tokens.push_back(*token);
      added.emplace(token->content, token);
    }
  }
  return tokens;
}

void add_token(const TokenValue& token, Pipeline& pipeline) {
  if (!token.content.empty()) {
    pipeline.added_tokens.add(
        token.to_added_token(), pipeline.model->vocabulary());
  }
}

void add_tokens(const ClassArguments& arguments, Pipeline& pipeline) {
  std::set<std::string_view> named;
  for (const TokenValue* token : named_tokens(arguments)) {
    named.insert(token->content);
  }
  for (TokenValue& token : tokens_to_add(arguments, pipeline)) {
    token.special = token.special || named.contains(token.content);
    add_token(token, pipeline);
  }
}

void readd_special_tokens(
    const TokenizerClass& kind,
    const ClassArguments& arguments,
    Pipeline& pipeline) {
  if (kind.readds == TokenizerClass::Readds::none) {
    return;
  }
  for (const TokenValue* special : all_special_tokens(arguments)) {
    TokenValue token = kind.readds == TokenizerClass::Readds::without_flags
                           ? TokenValue::from_text(special->content)
                           : *special;
    token.special = true;
    add_token(token, pipeline);
  }
}

// Returns the description of the post-processor that the class uses.
// `from_file` is the post-processor in tokenizer.json, or null if there is
// none.
Json describe_post_processor(
    const TokenizerClass& kind,
    const PipelineTokens& tokens,
    bool uses_file,
    Json from_file) {
  const ClassArguments& arguments = tokens.arguments();
  Json description = std::move(from_file);
  if (kind.processing == Processing::own_if_missing && !uses_file &&
      description.is_null()) {
    description = kind.post_processor(tokens);
  }
  const bool requests_bos_eos = !arguments.has_tokenizer_json &&
                                (arguments.values.contains("add_bos_token") ||
                                 arguments.values.contains("add_eos_token"));
  const bool only_bos_eos = description.is_null() || requests_bos_eos;
  if (only_bos_eos || kind.processing == Processing::bos_eos) {
    description = describe_bos_eos_template(tokens);
  }
  if (kind.processing == Processing::own &&
      !(only_bos_eos && kind.readds == TokenizerClass::Readds::with_flags)) {
    description = kind.post_processor(tokens);
  }
  return description;
}

void set_post_processor(
    const TokenizerClass& kind,
    const ClassArguments& arguments,
    bool uses_file,
    const std::string& source,
    Pipeline& pipeline) {
  Json& current = pipeline.description["post_processor"];
  Json description = describe_post_processor(
      kind, PipelineTokens(arguments, pipeline), uses_file, current);
  if (description != current) {
    current = std::move(description);
    pipeline.post_processor =
        make_post_processor(JsonNode(current, source, "$.post_processor"));
  }
}

}  // namespace

bool rebuilds_post_processor(
    const TokenizerClass& kind,
    const ClassArguments& arguments,
    const Pipeline& pipeline) {
  ClassArguments saved = arguments;
  saved.has_tokenizer_json = true;
  const Json& current = pipeline.description.at("post_processor");
  try {
    return describe_post_processor(
               kind,
               PipelineTokens(saved, pipeline),
               kind.keeps_tokenizer_json,
               current) == current;
  } catch (const accelerate::FormatError&) {
    return false;  // The class needs a token that the tokenizer does not have.
  }
}

std::unique_ptr<Pipeline> build_class_pipeline(
    const TokenizerClass& kind,
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText& text,
    const std::string& source) {
  const bool uses_file = tokenizer_json != nullptr &&
                         (kind.is_backend() || kind.keeps_tokenizer_json);
  if (tokenizer_json != nullptr && !uses_file) {
    check_model(kind, *tokenizer_json, text, source);
  }
  auto pipeline = std::make_unique<Pipeline>(make_pipeline(
      uses_file ? *tokenizer_json
                : describe(kind, arguments, tokenizer_json, text),
      text,
      source));
  add_tokens(arguments, *pipeline);
  readd_special_tokens(kind, arguments, *pipeline);
  set_post_processor(kind, arguments, uses_file, source, *pipeline);
  pipeline->added_tokens.prepare(pipeline->normalizer.get());
  return pipeline;
}

}  // namespace transformers::tokenizers
