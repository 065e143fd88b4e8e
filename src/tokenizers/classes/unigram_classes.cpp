// SPDX-License-Identifier: Apache-2.0
// Tokenizer classes with a Unigram model: XLM-RoBERTa, T5, ALBERT and others.
// They need a tokenizer.json; SentencePiece's own files are not read.
#include <algorithm>

#include "base/str_cat.h"
#include "tokenizers/classes/tokenizer_class.h"
#include "tokenizers/classes/unigram_stages.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;
using accelerate::str_cat;
using Form = TokenParameter::Form;
using Processing = TokenizerClass::Processing;

// Returns the id of `unk_token` if its score is 0, otherwise `default_id`.
std::int64_t unknown_id(
    const ClassArguments& arguments,
    const ModelText& text,
    std::int64_t default_id) {
  const auto id = find_in_unigram_vocabulary(
      text, arguments.source, arguments.token("unk_token"), 0.0);
  return id ? static_cast<std::int64_t>(*id) : default_id;
}

void describe_words(
    const Json* tokenizer_json,
    const char* scheme,
    std::int64_t unk_id,
    Json& description) {
  description["normalizer"] = charsmap_stage(tokenizer_json);
  description["pre_tokenizer"] = pre_tokenizer_sequence(
      stage(R"({"type": "WhitespaceSplit"})"), metaspace_stage(scheme));
  description["decoder"] = metaspace_stage(scheme);
  description["model"] = unigram_model(unk_id);
}

void describe_xlm_roberta(
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText&,
    Json& description) {
  describe_words(tokenizer_json, prepend_scheme(arguments), 3, description);
}

void describe_t5(
    const ClassArguments&,
    const Json* tokenizer_json,
    const ModelText&,
    Json& description) {
  describe_words(tokenizer_json, "always", 2, description);
}

void describe_camembert(
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText& text,
    Json& description) {
  const auto id = find_in_unigram_vocabulary(
      text, arguments.source, arguments.token("unk_token"), std::nullopt);
  describe_words(
      tokenizer_json, prepend_scheme(arguments), id.value_or(0), description);
}

Json::Array quote_normalizers() {
  return {replace_stage("``", "\""), replace_stage("''", "\"")};
}

void add_accents_and_case(
    bool keep_accents, bool lowercase, Json::Array& parts) {
  if (!keep_accents) {
    parts.push_back(stage(R"({"type": "NFKD"})"));
    parts.push_back(stage(R"({"type": "StripAccents"})"));
  }
  if (lowercase) {
    parts.push_back(stage(R"({"type": "Lowercase"})"));
  }
}

void add_charsmap(const Json* tokenizer_json, Json::Array& parts) {
  if (Json map = charsmap_stage(tokenizer_json); !map.is_null()) {
    parts.push_back(std::move(map));
  }
}

void describe_albert(
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText&,
    Json& description) {
  describe_words(tokenizer_json, prepend_scheme(arguments), 1, description);
  const JsonNode node = arguments.node();
  Json::Array parts = quote_normalizers();
  add_accents_and_case(
      node.boolean("keep_accents", false),
      node.boolean("do_lower_case", true),
      parts);
  add_charsmap(tokenizer_json, parts);
  description["normalizer"] = normalizer_sequence(std::move(parts));
}

void describe_xlnet(
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText&,
    Json& description) {
  const JsonNode node = arguments.node();
  describe_words(
      tokenizer_json, "always", node.integer("unk_id", 0), description);
  Json::Array parts = quote_normalizers();
  add_accents_and_case(false, node.boolean("do_lower_case", false), parts);
  add_charsmap(tokenizer_json, parts);
  description["normalizer"] = normalizer_sequence(std::move(parts));
}

void describe_rembert(
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText&,
    Json& description) {
  const JsonNode node = arguments.node();
  Json::Array parts = quote_normalizers();
  parts.push_back(replace_regex_stage(" {2,}", " "));
  add_accents_and_case(
      node.boolean("keep_accents", true),
      node.boolean("do_lower_case", false),
      parts);
  add_charsmap(tokenizer_json, parts);
  description["normalizer"] = normalizer_sequence(std::move(parts));
  description["pre_tokenizer"] = metaspace_stage(prepend_scheme(arguments));
  description["decoder"] = description["pre_tokenizer"];
  description["model"] = unigram_model(2);
}

void describe_big_bird(
    const ClassArguments& arguments,
    const Json*,
    const ModelText& text,
    Json& description) {
  description["normalizer"] = normalizer_sequence(
      {stage(R"({"type": "Strip", "strip_left": false, "strip_right": false})"),
       replace_regex_stage(" {2,}", "▁")});
  description["pre_tokenizer"] = metaspace_stage(prepend_scheme(arguments));
  description["decoder"] = description["pre_tokenizer"];
  description["model"] = unigram_model(unknown_id(arguments, text, 100));
}

Json::Array line_normalizers() {
  return {
      replace_regex_stage(R"(\s{2,}|[\n\r\t])", " "),
      stage(R"({"type": "NFC"})"),
      stage(R"({"type": "Strip", "strip_left": false, "strip_right": true})")};
}

void describe_barthez(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  description["normalizer"] = normalizer_sequence(line_normalizers());
  description["pre_tokenizer"] = metaspace_stage(prepend_scheme(arguments));
  description["decoder"] = description["pre_tokenizer"];
  description["model"] = unigram_model(3);
}

void describe_deberta_v2(
    const ClassArguments& arguments,
    const Json*,
    const ModelText& text,
    Json& description) {
  const JsonNode node = arguments.node();
  Json::Array parts = line_normalizers();
  if (node.boolean("do_lower_case", false)) {
    parts.insert(parts.begin(), stage(R"({"type": "Lowercase"})"));
  }
  const Json words = metaspace_stage(
      node.boolean("add_prefix_space", true) ? "always" : "first");
  Json stages = Json::array();
  if (node.boolean("split_by_punct", false)) {
    stages.push_back(
        stage(R"({"type": "Punctuation", "behavior": "Isolated"})"));
  }
  stages.push_back(words);
  description["normalizer"] = normalizer_sequence(std::move(parts));
  description["pre_tokenizer"] = Json::object(
      {{"type", "Sequence"}, {"pretokenizers", std::move(stages)}});
  description["decoder"] = words;
  description["model"] =
      unigram_model(unknown_id(arguments, text, node.integer("unk_id", 1)));
}

Json bos_eos_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens,
      "bos_token $A eos_token",
      "bos_token $A eos_token eos_token $B eos_token");
}

Json cls_sep_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens,
      "cls_token:0 $A:0 sep_token:0",
      "cls_token:0 $A:0 sep_token:0 $B:1 sep_token:1");
}

Json albert_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens,
      "cls_token=[CLS]:0 $A:0 sep_token=[SEP]:0",
      "cls_token=[CLS]:0 $A:0 sep_token=[SEP]:0 $B:1 sep_token=[SEP]:1");
}

Json t5_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens, "$A eos_token=</s>", "$A eos_token=</s> $B eos_token=</s>");
}

Json xlnet_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens,
      "$A:0 sep_token:0 cls_token:2",
      "$A:0 sep_token:0 $B:1 sep_token:1 cls_token:2");
}

void set_default_extra_tokens(
    ClassArguments& arguments, const std::vector<std::string>& texts) {
  if (arguments.additional_special_tokens) {
    return;
  }
  std::vector<TokenValue> tokens;
  for (const std::string& text : texts) {
    tokens.push_back(TokenValue::from_text(text));
  }
  arguments.additional_special_tokens = std::move(tokens);
}

void adjust_camembert(ClassArguments& arguments) {
  set_default_extra_tokens(
      arguments, {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"});
}

void adjust_xlnet(ClassArguments& arguments) {
  set_default_extra_tokens(arguments, {"<eop>", "<eod>"});
}

// `<extra_id_0>` to `<extra_id_99>` mark gaps in the text.
void adjust_t5(ClassArguments& arguments) {
  const JsonNode node = arguments.node();
  const std::int64_t extra_ids = node.integer("extra_ids", 100);
  constexpr std::int64_t kMaxExtraIds = 100'000;
  if (extra_ids < 0 || extra_ids > kMaxExtraIds) {
    node.at("extra_ids")
        .fail(str_cat(extra_ids, " is not in the range 0–", kMaxExtraIds));
  }
  auto tokens =
      arguments.additional_special_tokens.value_or(std::vector<TokenValue>());
  const auto given =
      std::count_if(tokens.begin(), tokens.end(), [](const TokenValue& token) {
        return token.content.find("<extra_id_") != std::string::npos;
      });
  if (given == 0) {
    for (std::int64_t i = 0; i < extra_ids; ++i) {
      tokens.push_back(TokenValue::from_text(str_cat("<extra_id_", i, ">")));
    }
  } else if (extra_ids > 0 && extra_ids != given) {
    node.fail(str_cat(
        "`extra_ids` is ",
        extra_ids,
        ", but `additional_special_tokens` has ",
        given,
        given == 1 ? " `<extra_id_…>` token" : " `<extra_id_…>` tokens"));
  }
  arguments.additional_special_tokens = std::move(tokens);
}

using Describe = decltype(TokenizerClass::describe);

TokenizerClass unigram_class(
    const char* name,
    std::vector<TokenParameter> special_tokens,
    Describe describe) {
  return {
      .name = name,
      .model = "Unigram",
      .special_tokens = std::move(special_tokens),
      .describe = describe,
      .reads_prefix_space = true};
}

std::vector<TokenParameter> fairseq_tokens(Form mask_form) {
  return {
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"unk_token", "<unk>"},
      {"sep_token", "</s>"},
      {"pad_token", "<pad>"},
      {"cls_token", "<s>"},
      {"mask_token", "<mask>", mask_form}};
}

std::vector<TokenParameter> albert_tokens() {
  return {
      {"bos_token", "[CLS]"},
      {"eos_token", "[SEP]"},
      {"unk_token", "<unk>"},
      {"sep_token", "[SEP]"},
      {"pad_token", "<pad>"},
      {"cls_token", "[CLS]"},
      {"mask_token", "[MASK]"}};
}

TokenizerClass with_template(
    TokenizerClass kind,
    accelerate::Json (*post_processor)(const PipelineTokens&),
    Processing processing = Processing::own) {
  kind.processing = processing;
  kind.post_processor = post_processor;
  return kind;
}

TokenizerClass albert_class() {
  return with_template(
      unigram_class("AlbertTokenizer", albert_tokens(), describe_albert),
      albert_template,
      Processing::own_if_missing);
}

TokenizerClass fnet_class() {
  TokenizerClass fnet = albert_class();
  fnet.name = "FNetTokenizer";
  fnet.keeps_tokenizer_json = true;
  fnet.reads_prefix_space = false;
  fnet.model_input_names = {"input_ids", "token_type_ids"};
  return fnet;
}

TokenizerClass rembert_class() {
  TokenizerClass rembert = with_template(
      unigram_class("RemBertTokenizer", albert_tokens(), describe_rembert),
      cls_sep_template);
  rembert.readds = TokenizerClass::Readds::with_flags;
  return rembert;
}

TokenizerClass t5_class() {
  TokenizerClass t5 = with_template(
      unigram_class(
          "T5Tokenizer",
          {{"eos_token", "</s>"},
           {"unk_token", "<unk>"},
           {"pad_token", "<pad>"}},
          describe_t5),
      t5_template);
  t5.adjust = adjust_t5;
  t5.reads_prefix_space = false;
  return t5;
}

TokenizerClass camembert_class() {
  TokenizerClass camembert = with_template(
      unigram_class(
          "CamembertTokenizer",
          fairseq_tokens(Form::lstrip),
          describe_camembert),
      bos_eos_template);
  camembert.adjust = adjust_camembert;
  return camembert;
}

TokenizerClass deberta_v2_class() {
  TokenizerClass deberta_v2 = with_template(
      unigram_class(
          "DebertaV2Tokenizer",
          {{"bos_token", "[CLS]"},
           {"eos_token", "[SEP]"},
           {"unk_token", "[UNK]"},
           {"sep_token", "[SEP]"},
           {"pad_token", "[PAD]"},
           {"cls_token", "[CLS]"},
           {"mask_token", "[MASK]"}},
          describe_deberta_v2),
      cls_sep_template);
  deberta_v2.model_input_names = {
      "input_ids", "attention_mask", "token_type_ids"};
  return deberta_v2;
}

TokenizerClass big_bird_class() {
  return with_template(
      unigram_class(
          "BigBirdTokenizer",
          {{"bos_token", "<s>", Form::token},
           {"eos_token", "</s>", Form::token},
           {"unk_token", "<unk>", Form::token},
           {"sep_token", "[SEP]", Form::token},
           {"pad_token", "<pad>", Form::token},
           {"cls_token", "[CLS]", Form::token},
           {"mask_token", "[MASK]", Form::lstrip}},
          describe_big_bird),
      cls_sep_template);
}

TokenizerClass xlnet_class() {
  TokenizerClass xlnet = with_template(
      unigram_class(
          "XLNetTokenizer",
          {{"bos_token", "<s>"},
           {"eos_token", "</s>"},
           {"unk_token", "<unk>"},
           {"sep_token", "<sep>"},
           {"pad_token", "<pad>"},
           {"cls_token", "<cls>"},
           {"mask_token", "<mask>", Form::lstrip}},
          describe_xlnet),
      xlnet_template);
  xlnet.padding_side = Side::left;
  xlnet.adjust = adjust_xlnet;
  xlnet.reads_prefix_space = false;
  return xlnet;
}

}  // namespace

std::vector<TokenizerClass> unigram_classes() {
  return {
      with_template(
          unigram_class(
              "XLMRobertaTokenizer",
              fairseq_tokens(Form::text),
              describe_xlm_roberta),
          bos_eos_template),
      albert_class(),
      fnet_class(),
      t5_class(),
      camembert_class(),
      unigram_class(
          "BarthezTokenizer", fairseq_tokens(Form::lstrip), describe_barthez),
      big_bird_class(),
      deberta_v2_class(),
      rembert_class(),
      xlnet_class()};
}

}  // namespace transformers::tokenizers
