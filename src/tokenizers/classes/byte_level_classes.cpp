// SPDX-License-Identifier: Apache-2.0
// Tokenizer classes with a BPE model of bytes: GPT-2, RoBERTa, Qwen and their
// relatives.
#include "tokenizers/classes/tokenizer_class.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;
using Form = TokenParameter::Form;
using Processing = TokenizerClass::Processing;

Json byte_level(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return Json::object(
      {{"type", "ByteLevel"},
       {"add_prefix_space", add_prefix_space},
       {"trim_offsets", trim_offsets},
       {"use_regex", use_regex}});
}

bool adds_prefix_space(const ClassArguments& arguments, bool default_value) {
  return arguments.node().boolean("add_prefix_space", default_value);
}

void describe_with_prefix(
    const ClassArguments& arguments, bool prefix_default, Json& description) {
  description["normalizer"] = nullptr;
  description["pre_tokenizer"] =
      byte_level(adds_prefix_space(arguments, prefix_default), true, true);
  description["decoder"] = byte_level(true, true, true);
  description["model"] = stage(R"({
      "type": "BPE", "dropout": null, "unk_token": null,
      "continuing_subword_prefix": "", "end_of_word_suffix": "",
      "fuse_unk": false, "byte_fallback": false, "ignore_merges": false})");
}

void describe_gpt2(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  describe_with_prefix(arguments, false, description);
}

void describe_blenderbot(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  describe_with_prefix(arguments, true, description);
}

void describe_gpt_neox(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  describe_with_prefix(arguments, false, description);
  description["normalizer"] = stage(R"({"type": "NFC"})");
  description["pre_tokenizer"]["trim_offsets"] =
      arguments.node().boolean("trim_offsets", true);
}

void describe_cohere(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  describe_with_prefix(arguments, false, description);
  description["normalizer"] = stage(R"({"type": "NFC"})");
  description["pre_tokenizer"] = Json::object(
      {{"type", "Sequence"},
       {"pretokenizers",
        Json::array(
            {stage(R"({"type": "Digits", "individual_digits": true})"),
             byte_level(adds_prefix_space(arguments, false), true, true)})}});
}

void describe_split(
    const ClassArguments& arguments, const char* regex, Json& description) {
  describe_with_prefix(arguments, false, description);
  description["normalizer"] = stage(R"({"type": "NFC"})");
  description["pre_tokenizer"] = Json::object(
      {{"type", "Sequence"},
       {"pretokenizers",
        Json::array(
            {Json::object(
                 {{"type", "Split"},
                  {"pattern", Json::object({{"Regex", regex}})},
                  {"behavior", "Isolated"},
                  {"invert", false}}),
             byte_level(adds_prefix_space(arguments, false), true, false)})}});
}

void describe_qwen2(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  describe_split(
      arguments,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
      R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      description);
}

void describe_qwen3_5(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  describe_split(
      arguments,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
      R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      description);
}

Json roberta_processing(const PipelineTokens& tokens) {
  const JsonNode node = tokens.arguments().node();
  const auto token = [&](const char* name) {
    return Json::array({tokens.text(name), tokens.id(name)});
  };
  return Json::object(
      {{"type", "RobertaProcessing"},
       {"sep", token("sep_token")},
       {"cls", token("cls_token")},
       {"trim_offsets", node.boolean("trim_offsets", true)},
       {"add_prefix_space", adds_prefix_space(tokens.arguments(), false)}});
}

Json codegen_processing(const PipelineTokens&) {
  return byte_level(true, false, true);
}

Json deberta_template(const PipelineTokens& tokens) {
  return describe_template(
      tokens,
      "cls_token $A sep_token",
      "cls_token $A sep_token sep_token $B sep_token");
}

// CodeGen returns token type ids only if the option `return_token_type_ids` is
// set.
void adjust_codegen(ClassArguments& arguments) {
  if (arguments.node().boolean("return_token_type_ids", false) &&
      !arguments.values.contains("model_input_names")) {
    arguments.values["model_input_names"] =
        Json::array({"input_ids", "attention_mask", "token_type_ids"});
  }
}

TokenizerClass gpt2_class(const char* name) {
  return {
      .name = name,
      .model = "BPE",
      .special_tokens =
          {{"unk_token", "<|endoftext|>"},
           {"bos_token", "<|endoftext|>"},
           {"eos_token", "<|endoftext|>"},
           {"pad_token", nullptr}},
      .files = VocabularyFiles::vocab_json_and_merges,
      .describe = describe_gpt2,
      .reads_prefix_space = true};
}

TokenizerClass roberta_class(const char* name) {
  TokenizerClass roberta = gpt2_class(name);
  roberta.special_tokens = {
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"unk_token", "<unk>"},
      {"sep_token", "</s>"},
      {"pad_token", "<pad>"},
      {"cls_token", "<s>"},
      {"mask_token", "<mask>"}};
  return roberta;
}

TokenizerClass deberta_class() {
  TokenizerClass deberta = gpt2_class("DebertaTokenizer");
  deberta.special_tokens = {
      {"bos_token", "[CLS]"},
      {"eos_token", "[SEP]"},
      {"unk_token", "[UNK]"},
      {"sep_token", "[SEP]"},
      {"pad_token", "[PAD]"},
      {"cls_token", "[CLS]"},
      {"mask_token", "[MASK]"}};
  deberta.processing = Processing::own;
  deberta.post_processor = deberta_template;
  deberta.model_input_names = {"input_ids", "attention_mask", "token_type_ids"};
  return deberta;
}

TokenizerClass cohere_class() {
  TokenizerClass cohere = gpt2_class("CohereTokenizer");
  cohere.special_tokens = {
      {"bos_token", "<BOS_TOKEN>"},
      {"eos_token", "<|END_OF_TURN_TOKEN|>"},
      {"unk_token", "<UNK>"},
      {"sep_token", "<SEP>"},
      {"pad_token", "<PAD>"},
      {"cls_token", "<CLS>"},
      {"mask_token", "<MASK_TOKEN>"}};
  cohere.describe = describe_cohere;
  cohere.padding_side = Side::left;
  cohere.readds = TokenizerClass::Readds::with_flags;
  return cohere;
}

TokenizerClass qwen_class(const char* name) {
  TokenizerClass qwen = gpt2_class(name);
  qwen.special_tokens = {
      {"unk_token", "<|endoftext|>"},
      {"bos_token", nullptr},
      {"eos_token", "<|endoftext|>"},
      {"pad_token", "<|endoftext|>"}};
  return qwen;
}

}  // namespace

std::vector<TokenizerClass> byte_level_classes() {
  TokenizerClass roberta = roberta_class("RobertaTokenizer");
  roberta.processing = Processing::own;
  roberta.post_processor = roberta_processing;
  TokenizerClass blenderbot = roberta_class("BlenderbotTokenizer");
  blenderbot.special_tokens.back().form = Form::lstrip;
  blenderbot.describe = describe_blenderbot;
  TokenizerClass codegen = gpt2_class("CodeGenTokenizer");
  codegen.processing = Processing::own_if_missing;
  codegen.post_processor = codegen_processing;
  codegen.adjust = adjust_codegen;
  TokenizerClass gpt_neox = gpt2_class("GPTNeoXTokenizer");
  gpt_neox.special_tokens.back() = {"pad_token", "<|padding|>"};
  gpt_neox.describe = describe_gpt_neox;
  gpt_neox.processing = Processing::bos_eos;
  TokenizerClass qwen2 = qwen_class("Qwen2Tokenizer");
  qwen2.describe = describe_qwen2;
  qwen2.readds = TokenizerClass::Readds::without_flags;
  TokenizerClass qwen3_5 = qwen_class("Qwen3_5Tokenizer");
  qwen3_5.describe = describe_qwen3_5;
  qwen3_5.files = VocabularyFiles::none;
  return {
      gpt2_class("GPT2Tokenizer"),
      roberta,
      blenderbot,
      codegen,
      deberta_class(),
      gpt_neox,
      qwen2,
      qwen3_5,
      cohere_class()};
}

}  // namespace transformers::tokenizers
