// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/legacy_files.h"

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/tokenizers/json_node.h"

namespace transformers::tokenizers {
namespace {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::read_file;
using accelerate::str_cat;
namespace fs = std::filesystem;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void check_utf8(const std::string& text, const std::string& source) {
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string::npos) {
    throw FormatError(str_cat(source, ": byte ", invalid, " is not UTF-8"));
  }
}

// One token per line; the line number is the id. A token that appears twice
// gets the later id, as in Hugging Face Transformers.
Json read_vocab_txt(const std::string& source) {
  const std::string text = read_file(source, kMaxFileBytes);
  check_utf8(text, source);
  Json::Object vocab;
  std::int64_t id = 0;
  for (const std::string_view line : lines_of(text)) {
    vocab[line] = id++;
  }
  return vocab;
}

Json read_merges_txt(const std::string& source) {
  const std::string text = read_file(source, kMaxFileBytes);
  check_utf8(text, source);
  Json::Array merges;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (line.empty() || line.starts_with("#version")) {
      continue;
    }
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos ||
        line.find(' ', space + 1) != std::string_view::npos) {
      throw FormatError(str_cat(
          source,
          ":",
          number,
          ": expected two tokens separated by a space, found `",
          accelerate::printable(line),
          "`"));
    }
    merges.push_back(
        Json::array({line.substr(0, space), line.substr(space + 1)}));
  }
  return merges;
}

Json id_of(
    const Json& vocab, const JsonNode& config, const std::string& token) {
  const Json* id = vocab.find(token);
  if (id == nullptr) {
    throw FormatError(
        str_cat(config.source(), ": the vocabulary lacks `", token, "`"));
  }
  return *id;
}

Json special_piece(const std::string& token, int type_id) {
  return Json::object(
      {{"SpecialToken", Json::object({{"id", token}, {"type_id", type_id}})}});
}

Json sequence_piece(const char* name, int type_id) {
  return Json::object(
      {{"Sequence", Json::object({{"id", name}, {"type_id", type_id}})}});
}

std::string token_or_default(
    const JsonNode& config,
    const std::string& name,
    const char* default_token) {
  const auto node = config.find(name);
  if (!node) {
    return default_token;
  }
  return node->value().is_string() ? node->as_string()
                                   : node->string("content");
}

Json bert_template(const JsonNode& config, const Json& vocab) {
  const std::string cls = token_or_default(config, "cls_token", "[CLS]");
  const std::string sep = token_or_default(config, "sep_token", "[SEP]");
  Json tokens = Json::object();
  for (const std::string& token : {cls, sep}) {
    tokens[token] = Json::object(
        {{"id", token},
         {"ids", Json::array({id_of(vocab, config, token)})},
         {"tokens", Json::array({token})}});
  }
  const Json single = Json::array(
      {special_piece(cls, 0), sequence_piece("A", 0), special_piece(sep, 0)});
  Json pair = single;
  pair.push_back(sequence_piece("B", 1));
  pair.push_back(special_piece(sep, 1));
  return Json::object(
      {{"type", "TemplateProcessing"},
       {"single", single},
       {"pair", pair},
       {"special_tokens", tokens}});
}

Json optional_bool(const JsonNode& config, const char* key) {
  const auto node = config.find(key);
  return node ? Json(node->as_bool()) : Json();
}

Json describe_bert(const JsonNode& config, const Json& vocab) {
  const bool lower = config.boolean("do_lower_case", true);
  return Json::object(
      {{"version", "1.0"},
       {"truncation", nullptr},
       {"padding", nullptr},
       {"added_tokens", Json::array()},
       {"normalizer",
        Json::object(
            {{"type", "BertNormalizer"},
             {"clean_text", true},
             {"handle_chinese_chars",
              config.boolean("tokenize_chinese_chars", true)},
             {"strip_accents", optional_bool(config, "strip_accents")},
             {"lowercase", lower}})},
       {"pre_tokenizer", Json::object({{"type", "BertPreTokenizer"}})},
       {"post_processor", bert_template(config, vocab)},
       {"decoder",
        Json::object(
            {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}})},
       {"model",
        Json::object(
            {{"type", "WordPiece"},
             {"unk_token", token_or_default(config, "unk_token", "[UNK]")},
             {"continuing_subword_prefix", "##"},
             {"max_input_chars_per_word", 100}})}});
}

Json roberta_processing(const JsonNode& config, const Json& vocab) {
  const std::string cls = token_or_default(config, "cls_token", "<s>");
  const std::string sep = token_or_default(config, "sep_token", "</s>");
  return Json::object(
      {{"type", "RobertaProcessing"},
       {"sep", Json::array({sep, id_of(vocab, config, sep)})},
       {"cls", Json::array({cls, id_of(vocab, config, cls)})},
       {"trim_offsets", config.boolean("trim_offsets", true)},
       {"add_prefix_space", config.boolean("add_prefix_space", false)}});
}

Json describe_byte_level(
    const JsonNode& config, const Json& vocab, const std::string& family) {
  const Json stage = Json::object(
      {{"type", "ByteLevel"},
       {"add_prefix_space", config.boolean("add_prefix_space", false)},
       {"trim_offsets", true},
       {"use_regex", true}});
  return Json::object(
      {{"version", "1.0"},
       {"truncation", nullptr},
       {"padding", nullptr},
       {"added_tokens", Json::array()},
       {"normalizer", nullptr},
       {"pre_tokenizer", stage},
       {"post_processor",
        family == "roberta" ? roberta_processing(config, vocab) : Json()},
       {"decoder",
        Json::object(
            {{"type", "ByteLevel"},
             {"add_prefix_space", true},
             {"trim_offsets", true},
             {"use_regex", true}})},
       {"model",
        Json::object(
            {{"type", "BPE"},
             {"dropout", nullptr},
             {"unk_token", nullptr},
             {"continuing_subword_prefix", ""},
             {"end_of_word_suffix", ""},
             {"fuse_unk", false},
             {"byte_fallback", false},
             {"ignore_merges", false}})}});
}

}  // namespace

std::unique_ptr<Pipeline> read_legacy_folder(
    const fs::path& folder, const Json& config, const std::string& family) {
  const JsonNode node(config, (folder / "tokenizer_config.json").string(), "$");
  if (fs::exists(folder / "vocab.txt")) {
    const std::string source = (folder / "vocab.txt").string();
    const Json vocab = read_vocab_txt(source);
    const std::string text = vocab.dump();
    return std::make_unique<Pipeline>(
        make_pipeline(describe_bert(node, vocab), {text, {}}, source));
  }
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) {
    const std::string source = (folder / "vocab.json").string();
    const Json vocab = Json::parse(
        read_file(source, kMaxFileBytes), {.source = source, .max_depth = 4});
    const std::string vocab_text = vocab.dump();
    const std::string merges_text =
        read_merges_txt((folder / "merges.txt").string()).dump();
    return std::make_unique<Pipeline>(make_pipeline(
        describe_byte_level(node, vocab, family),
        {vocab_text, merges_text},
        source));
  }
  return nullptr;
}

}  // namespace transformers::tokenizers
