// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/family.h"

#include <utility>

namespace transformers::tokenizers {
namespace {

const Family kOtherFamily{};

const Family kBertFamily{
    "bert",
    {{"unk_token", "[UNK]"},
     {"sep_token", "[SEP]"},
     {"pad_token", "[PAD]"},
     {"cls_token", "[CLS]"},
     {"mask_token", "[MASK]"}},
    true,
    Side::right};

const Family kDistilBertFamily{
    "bert", kBertFamily.special_tokens, false, Side::right};

const Family kGpt2Family{
    "gpt2",
    {{"unk_token", "<|endoftext|>"},
     {"bos_token", "<|endoftext|>"},
     {"eos_token", "<|endoftext|>"}},
    false,
    Side::right};

const Family kRobertaFamily{
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

const Family kLlamaFamily{
    "llama",
    {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}},
    false,
    Side::left};

}  // namespace

const Family& family_of(const std::string& name) {
  static const std::map<std::string, const Family*> known = {
      {"BertTokenizer", &kBertFamily},
      {"bert", &kBertFamily},
      {"DistilBertTokenizer", &kDistilBertFamily},
      {"distilbert", &kDistilBertFamily},
      {"GPT2Tokenizer", &kGpt2Family},
      {"gpt2", &kGpt2Family},
      {"RobertaTokenizer", &kRobertaFamily},
      {"XLMRobertaTokenizer", &kRobertaFamily},
      {"roberta", &kRobertaFamily},
      {"xlm-roberta", &kRobertaFamily},
      {"LlamaTokenizer", &kLlamaFamily},
      {"llama", &kLlamaFamily},
  };
  std::string key = name;
  if (key.ends_with("Fast")) {
    key.resize(key.size() - 4);
  }
  const auto found = known.find(key);
  return found == known.end() ? kOtherFamily : *found->second;
}

}  // namespace transformers::tokenizers
