// SPDX-License-Identifier: Apache-2.0
// The list of tokenizer classes, and the parts that they share.
#include "tokenizers/classes/tokenizer_class.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::tokenizers {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::str_cat;

namespace {

std::vector<TokenizerClass> make_classes() {
  std::vector<TokenizerClass> classes;
  for (const auto make :
       {word_piece_classes, byte_level_classes, bpe_classes, unigram_classes}) {
    for (TokenizerClass& kind : make()) {
      classes.push_back(std::move(kind));
    }
  }
  return classes;
}

const std::vector<TokenizerClass>& classes() {
  static const std::vector<TokenizerClass> all = make_classes();
  return all;
}

// Returns the name of the class for which `name` is only an alias.
std::string_view canonical_name(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
      {"BartTokenizer", "RobertaTokenizer"},
      {"ElectraTokenizer", "BertTokenizer"},
      {"LayoutLMTokenizer", "BertTokenizer"},
      {"LEDTokenizer", "RobertaTokenizer"},
      {"LongformerTokenizer", "RobertaTokenizer"},
      {"LxmertTokenizer", "BertTokenizer"},
      {"MobileBertTokenizer", "BertTokenizer"},
      {"MvpTokenizer", "RobertaTokenizer"},
      {"SqueezeBertTokenizer", "BertTokenizer"},
  };
  for (const auto& [alias, canonical] : kAliases) {
    if (name == alias) {
      return canonical;
    }
  }
  return name;
}

}  // namespace

const TokenizerClass& tokenizers_backend() {
  static const TokenizerClass backend{"TokenizersBackend", nullptr};
  return backend;
}

const TokenizerClass* find_supported_class(std::string_view name) {
  for (const TokenizerClass& kind : classes()) {
    if (kind.name == canonical_name(name)) {
      return &kind;
    }
  }
  return nullptr;
}

std::vector<std::string> supported_class_names() {
  std::vector<std::string> names;
  for (const TokenizerClass& kind : classes()) {
    names.emplace_back(kind.name);
  }
  return names;
}

const std::string& PipelineTokens::text(const std::string& name) const {
  return arguments_.token(name);
}

std::int64_t PipelineTokens::id(const std::string& name) const {
  const AddedToken* token = pipeline_.added_tokens.find(text(name));
  if (token == nullptr) {
    throw FormatError(
        str_cat(arguments_.source, ": $.", name, ": the token is empty"),
        "set it to a token in the vocabulary");
  }
  return token->id;
}

Json stage(std::string_view json_text) {
  return Json::parse(json_text);
}

namespace {

// The pieces of a template are separated by spaces, and a type id follows a
// colon, so a token with a space or a colon cannot be part of a template.
void check_template_token(
    const PipelineTokens& tokens,
    const std::string& name,
    std::string_view text) {
  if (text.find_first_of(" :") == std::string_view::npos &&
      !text.starts_with('$')) {
    return;
  }
  throw FormatError(
      str_cat(
          tokens.arguments().source,
          ": $.",
          name,
          ": the token `",
          accelerate::printable(text),
          "` cannot be part of a template"),
      "use a token without spaces or colons that does not begin with `$`");
}

Json describe_pieces(
    const PipelineTokens& tokens, std::string_view text, Json& special_tokens) {
  Json pieces = Json::array();
  for (const std::string& part : accelerate::split(text, ' ')) {
    const std::size_t colon = part.rfind(':');
    const std::string name = part.substr(0, colon);
    const std::int64_t type_id =
        colon == std::string::npos ? 0 : part[colon + 1] - '0';
    if (name.starts_with('$')) {
      pieces.push_back(Json::object(
          {{"Sequence",
            Json::object({{"id", name.substr(1)}, {"type_id", type_id}})}}));
      continue;
    }
    // A piece `name=text` has the id of the token `name` and the text after
    // `=`.
    const std::size_t equals = name.find('=');
    const std::string token_name = name.substr(0, equals);
    const std::string token = equals == std::string::npos
                                  ? tokens.text(token_name)
                                  : name.substr(equals + 1);
    check_template_token(tokens, token_name, token);
    special_tokens[token] = Json::object(
        {{"id", token},
         {"ids", Json::array({tokens.id(token_name)})},
         {"tokens", Json::array({token})}});
    pieces.push_back(Json::object(
        {{"SpecialToken",
          Json::object({{"id", token}, {"type_id", type_id}})}}));
  }
  return pieces;
}

}  // namespace

Json describe_template(
    const PipelineTokens& tokens,
    std::string_view single,
    std::string_view pair) {
  Json special_tokens = Json::object();
  Json single_pieces = describe_pieces(tokens, single, special_tokens);
  Json pair_pieces = describe_pieces(tokens, pair, special_tokens);
  return Json::object(
      {{"type", "TemplateProcessing"},
       {"single", std::move(single_pieces)},
       {"pair", std::move(pair_pieces)},
       {"special_tokens", std::move(special_tokens)}});
}

Json describe_bos_eos_template(const PipelineTokens& tokens) {
  const ClassArguments& arguments = tokens.arguments();
  const JsonNode node = arguments.node();
  const auto adds = [&](const char* flag, const char* name) {
    const auto token = arguments.special_tokens.find(name);
    return !arguments.has_tokenizer_json && node.boolean(flag, false) &&
           token != arguments.special_tokens.end() && token->second;
  };
  const bool bos = adds("add_bos_token", "bos_token");
  const bool eos = adds("add_eos_token", "eos_token");
  const std::string single =
      str_cat(bos ? "bos_token:0 " : "", "$A:0", eos ? " eos_token:0" : "");
  const std::string pair = str_cat(
      single, bos ? " bos_token:1" : "", " $B:1", eos ? " eos_token:1" : "");
  return describe_template(tokens, single, pair);
}

}  // namespace transformers::tokenizers
