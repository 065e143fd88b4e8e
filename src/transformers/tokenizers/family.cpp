// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/family.h"

#include <utility>

namespace transformers::tokenizers {
namespace {

const Family kOther{};

const Family kBert{
    "bert",
    {{"unk_token", "[UNK]"},
     {"sep_token", "[SEP]"},
     {"pad_token", "[PAD]"},
     {"cls_token", "[CLS]"},
     {"mask_token", "[MASK]"}},
    true,
    Side::right};

const Family kDistilBert{"bert", kBert.special_tokens, false, Side::right};

const Family kGpt2{
    "gpt2",
    {{"unk_token", "<|endoftext|>"},
     {"bos_token", "<|endoftext|>"},
     {"eos_token", "<|endoftext|>"}},
    false,
    Side::right};

const Family kRoberta{
    "roberta",
    {{"bos_token", "<s>"},
     {"eos_token", "</s>"},
     {"sep_token", "</s>"},
     {"cls_token", "<s>"},
     {"unk_token", "<unk>"},
     {"pad_token", "<pad>"},
     {"mask_token", "<mask>"}},
    false,
    Side::right};

const Family kLlama{
    "llama",
    {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}},
    false,
    Side::left};

}  // namespace

const Family& family_of(const std::string& name) {
  static const std::map<std::string, const Family*> known = {
      {"BertTokenizer", &kBert},
      {"bert", &kBert},
      {"DistilBertTokenizer", &kDistilBert},
      {"distilbert", &kDistilBert},
      {"GPT2Tokenizer", &kGpt2},
      {"gpt2", &kGpt2},
      {"RobertaTokenizer", &kRoberta},
      {"XLMRobertaTokenizer", &kRoberta},
      {"roberta", &kRoberta},
      {"xlm-roberta", &kRoberta},
      {"LlamaTokenizer", &kLlama},
      {"llama", &kLlama},
  };
  std::string key = name;
  if (key.ends_with("Fast")) {
    key.resize(key.size() - 4);
  }
  const auto found = known.find(key);
  return found == known.end() ? kOther : *found->second;
}

}  // namespace transformers::tokenizers
