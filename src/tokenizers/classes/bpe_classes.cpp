// SPDX-License-Identifier: Apache-2.0
// Tokenizer classes with a BPE model of characters: Llama, Gemma, CLIP and
// others.
#include "tokenizers/classes/tokenizer_class.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;
using Processing = TokenizerClass::Processing;

// Describes the BPE model of a converted SentencePiece model. Unknown
// characters become byte tokens.
Json sentencepiece_bpe(Json unk_token) {
  Json model = stage(R"({
      "type": "BPE", "dropout": null, "unk_token": null,
      "continuing_subword_prefix": null, "end_of_word_suffix": null,
      "fuse_unk": true, "byte_fallback": true, "ignore_merges": false})");
  model["unk_token"] = std::move(unk_token);
  return model;
}

// Describes a BPE model in which the last token of each word ends with `</w>`.
Json word_bpe(const ClassArguments& arguments, Json prefix) {
  Json model = stage(R"({
      "type": "BPE", "dropout": null, "unk_token": null,
      "continuing_subword_prefix": null, "end_of_word_suffix": "</w>",
      "fuse_unk": false, "byte_fallback": false, "ignore_merges": false})");
  model["unk_token"] = arguments.token("unk_token");
  model["continuing_subword_prefix"] = std::move(prefix);
  return model;
}

void describe_llama(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  const JsonNode node = arguments.node();
  const bool prefix = node.boolean("add_prefix_space", true);
  const bool legacy = node.boolean("legacy", false);
  description["normalizer"] = nullptr;
  description["pre_tokenizer"] = Json::object(
      {{"type", "Metaspace"},
       {"replacement", "▁"},
       {"prepend_scheme",
        !prefix  ? "never"
        : legacy ? "always"
                 : "first"},
       {"split", false}});
  description["decoder"] = stage(R"({
      "type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"}]})");
  if (prefix) {
    description["decoder"]["decoders"].push_back(
        stage(R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})"));
  }
  description["model"] = sentencepiece_bpe(nullptr);
}

void describe_gemma(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  description["normalizer"] = stage(
      R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})");
  description["pre_tokenizer"] = stage(R"({
      "type": "Split", "pattern": {"String": " "},
      "behavior": "MergedWithPrevious", "invert": false})");
  description["decoder"] = stage(R"({
      "type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"}]})");
  description["model"] = sentencepiece_bpe(arguments.token("unk_token"));
}

void describe_clip(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  description["normalizer"] = stage(R"({
      "type": "Sequence", "normalizers": [
        {"type": "NFC"},
        {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "},
        {"type": "Lowercase"}]})");
  description["pre_tokenizer"] = stage(R"({
      "type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex":
          "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"},
         "behavior": "Removed", "invert": true},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
         "use_regex": true}]})");
  description["decoder"] = stage(R"({
      "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
      "use_regex": true})");
  description["model"] = word_bpe(arguments, "");
}

void describe_openai_gpt(
    const ClassArguments& arguments,
    const Json*,
    const ModelText&,
    Json& description) {
  description["normalizer"] = stage(R"({
      "type": "BertNormalizer", "clean_text": true,
      "handle_chinese_chars": true, "strip_accents": null,
      "lowercase": true})");
  description["pre_tokenizer"] = stage(R"({"type": "BertPreTokenizer"})");
  description["decoder"] = stage(R"({"type": "BPEDecoder", "suffix": "</w>"})");
  description["model"] = word_bpe(arguments, "");
}

void describe_herbert(
    const ClassArguments& arguments,
    const Json* tokenizer_json,
    const ModelText& text,
    Json& description) {
  describe_openai_gpt(arguments, tokenizer_json, text, description);
  description["normalizer"]["strip_accents"] = false;
  description["normalizer"]["lowercase"] = false;
  description["model"] = word_bpe(arguments, nullptr);
}

Json clip_processing(const PipelineTokens& tokens) {
  const auto token = [&](const char* name) {
    return Json::array({tokens.text(name), tokens.id(name)});
  };
  return Json::object(
      {{"type", "RobertaProcessing"},
       {"sep", token("eos_token")},
       {"cls", token("bos_token")},
       {"trim_offsets", false},
       {"add_prefix_space", false}});
}

// The ids in HerBERT's template do not depend on the vocabulary.
Json herbert_processing(const PipelineTokens& tokens) {
  return Json::object(
      {{"type", "BertProcessing"},
       {"sep", Json::array({tokens.text("sep_token"), 2})},
       {"cls", Json::array({tokens.text("cls_token"), 0})}});
}

}  // namespace

std::vector<TokenizerClass> bpe_classes() {
  return {
      {.name = "LlamaTokenizer",
       .model = "BPE",
       .special_tokens =
           {{"unk_token", "<unk>"},
            {"bos_token", "<s>"},
            {"eos_token", "</s>"}},
       .describe = describe_llama,
       .padding_side = Side::left,
       .reads_prefix_space = true},
      {.name = "GemmaTokenizer",
       .model = "BPE",
       .special_tokens =
           {{"unk_token", "<unk>"},
            {"bos_token", "<bos>"},
            {"eos_token", "<eos>"},
            {"pad_token", "<pad>"},
            {"mask_token", "<mask>"}},
       .describe = describe_gemma,
       .padding_side = Side::left},
      {.name = "CLIPTokenizer",
       .model = "BPE",
       .special_tokens =
           {{"unk_token", "<|endoftext|>"},
            {"bos_token", "<|startoftext|>"},
            {"eos_token", "<|endoftext|>"},
            {"pad_token", "<|endoftext|>"}},
       .files = VocabularyFiles::vocab_json_and_merges,
       .describe = describe_clip,
       .processing = Processing::own,
       .post_processor = clip_processing,
       .end_of_word = "</w>"},
      {.name = "OpenAIGPTTokenizer",
       .model = "BPE",
       .special_tokens = {{"unk_token", "<unk>"}},
       .files = VocabularyFiles::vocab_json_and_merges,
       .describe = describe_openai_gpt},
      {.name = "HerbertTokenizer",
       .model = "BPE",
       .special_tokens =
           {{"unk_token", "<unk>"},
            {"sep_token", "</s>"},
            {"pad_token", "<pad>"},
            {"cls_token", "<s>"},
            {"mask_token", "<mask>"}},
       .files = VocabularyFiles::vocab_json_and_merges,
       .describe = describe_herbert,
       .processing = Processing::own,
       .post_processor = herbert_processing}};
}

}  // namespace transformers::tokenizers
