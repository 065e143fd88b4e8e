// SPDX-License-Identifier: Apache-2.0
// Tokenizer classes with a WordPiece model: BERT and its relatives.
#include "tokenizers/classes/tokenizer_class.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;
using Form = TokenParameter::Form;

void describe_bert(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  const JsonNode node = arguments.node();
  const auto accents = node.find("strip_accents");
  description["normalizer"] = Json::object(
      {{"type", "BertNormalizer"},
       {"clean_text", true},
       {"handle_chinese_chars", node.boolean("tokenize_chinese_chars", true)},
       {"strip_accents", accents ? Json(accents->as_bool()) : Json()},
       {"lowercase", node.boolean("do_lower_case", true)}});
  description["pre_tokenizer"] = stage(R"({"type": "BertPreTokenizer"})");
  description["decoder"] =
      stage(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})");
  description["model"] = Json::object(
      {{"type", "WordPiece"},
       {"unk_token", arguments.token("unk_token")},
       {"continuing_subword_prefix", "##"},
       {"max_input_chars_per_word", 100}});
}

void describe_funnel(
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText& text,
    Json& description) {
  describe_bert(arguments, tokenizer_json, text, description);
  const JsonNode node = arguments.node();
  description["normalizer"]["clean_text"] = node.boolean("clean_text", true);
  description["decoder"]["prefix"] = node.string("wordpieces_prefix", "##");
}

Json bert_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens,
      "cls_token:0 $A:0 sep_token:0",
      "cls_token:0 $A:0 sep_token:0 $B:1 sep_token:1");
}

Json funnel_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens,
      "cls_token:2 $A:0 sep_token:0",
      "cls_token:2 $A:0 sep_token:0 $B:1 sep_token:1");
}

Json mpnet_processing(const PipelineTokens& tokens) {
  const auto token = [&](const char* name) {
    return Json::array({tokens.text(name), tokens.id(name)});
  };
  return Json::object(
      {{"type", "RobertaProcessing"},
       {"sep", token("sep_token")},
       {"cls", token("cls_token")},
       {"trim_offsets", true},
       {"add_prefix_space", false}});
}

TokenizerClass bert_class(const char* name) {
  return {
      .name = name,
      .model = "WordPiece",
      .special_tokens =
          {{"unk_token", "[UNK]"},
           {"sep_token", "[SEP]"},
           {"pad_token", "[PAD]"},
           {"cls_token", "[CLS]"},
           {"mask_token", "[MASK]"}},
      .files = VocabularyFiles::vocab_txt,
      .describe = describe_bert,
      .processing = TokenizerClass::Processing::own,
      .post_processor = bert_template,
      .model_input_names = {"input_ids", "token_type_ids", "attention_mask"}};
}

}  // namespace

std::vector<TokenizerClass> word_piece_classes() {
  TokenizerClass distilbert = bert_class("DistilBertTokenizer");
  distilbert.model_input_names = {"input_ids", "attention_mask"};
  TokenizerClass convbert = bert_class("ConvBertTokenizer");
  convbert.keeps_tokenizer_json = true;
  TokenizerClass mpnet = bert_class("MPNetTokenizer");
  mpnet.special_tokens = {
      {"bos_token", "<s>", Form::token},
      {"eos_token", "</s>", Form::token},
      {"unk_token", "[UNK]", Form::token},
      {"sep_token", "</s>", Form::token},
      {"pad_token", "<pad>", Form::token},
      {"cls_token", "<s>", Form::token},
      {"mask_token", "<mask>", Form::lstrip}};
  mpnet.post_processor = mpnet_processing;
  mpnet.model_input_names = {"input_ids", "attention_mask"};
  TokenizerClass funnel = bert_class("FunnelTokenizer");
  funnel.special_tokens = {
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"unk_token", "<unk>"},
      {"sep_token", "<sep>"},
      {"pad_token", "<pad>"},
      {"cls_token", "<cls>"},
      {"mask_token", "<mask>"}};
  funnel.describe = describe_funnel;
  funnel.post_processor = funnel_template;
  funnel.model_input_names = {"input_ids", "attention_mask"};
  return {bert_class("BertTokenizer"), distilbert, convbert, mpnet, funnel};
}

}  // namespace transformers::tokenizers
