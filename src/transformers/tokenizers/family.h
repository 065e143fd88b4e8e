// SPDX-License-Identifier: Apache-2.0
// Defaults for values that a tokenizer's files may omit, by tokenizer class.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transformers/tokenizer_options.h"

namespace transformers::tokenizers {

struct Family {
  std::string name;  // "bert", "gpt2", "roberta", "llama", or "".
  std::map<std::string, std::string> special_tokens;
  bool token_type_ids = false;
  Side padding_side = Side::right;
};

/// Returns the family for a `tokenizer_class` or a `model_type`.
const Family& family_of(const std::string& name);

}  // namespace transformers::tokenizers
