// SPDX-License-Identifier: Apache-2.0
// What a tokenizer's class implies that its files may leave out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transformers/tokenizer_options.h"

namespace transformers::tokenizers {

struct Family {
  std::string name;  // "bert", "gpt2", "roberta", "llama", or "" for others.
  std::map<std::string, std::string> special_tokens;
  bool token_type_ids = false;
  Side padding_side = Side::right;
};

/// The family of a `tokenizer_class`, or of a `model_type`.
const Family& family_of(const std::string& name);

}  // namespace transformers::tokenizers
