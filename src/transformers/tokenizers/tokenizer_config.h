// SPDX-License-Identifier: Apache-2.0
// The content of tokenizer_config.json and special_tokens_map.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "transformers/tokenizer_options.h"
#include "transformers/tokenizers/pipeline.h"

namespace transformers::tokenizers {

/// The names of special tokens ("bos_token", …), in the order in which the
/// files list them.
const std::vector<std::string>& special_token_names();

struct TokenizerConfig {
  std::optional<std::int64_t> model_max_length;
  Side padding_side = Side::right;
  Side truncation_side = Side::right;
  std::int64_t pad_token_type_id = 0;
  bool clean_up_tokenization_spaces = false;
  std::vector<std::string> model_input_names{"input_ids", "attention_mask"};
  /// The text of each special token, by name.
  std::map<std::string, std::string> special_tokens;
  std::vector<std::string> extra_special_tokens;
  /// The whole content of tokenizer_config.json, which `save_pretrained`
  /// writes.
  accelerate::Json json = accelerate::Json::object();

  bool takes(const std::string& input) const;
};

/// Makes a `TokenizerConfig` from the JSON in tokenizer_config.json. `source`
/// is the file name for error messages. `model_type`, from config.json, is used
/// if the JSON has no `tokenizer_class`.
TokenizerConfig read_tokenizer_config(
    accelerate::Json json,
    const std::string& source,
    const std::string& model_type);

/// Applies the configuration to the pipeline: added tokens, the prefix space,
/// and, if there is no tokenizer.json, the tokens at the beginning and end of a
/// text.
void apply_tokenizer_config(
    TokenizerConfig& config, Pipeline& pipeline, bool has_tokenizer_json);

}  // namespace transformers::tokenizers
