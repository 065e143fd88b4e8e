// SPDX-License-Identifier: Apache-2.0
// What tokenizer_config.json and special_tokens_map.json say.
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

/// The parts that special tokens can have, in the order files list them.
const std::vector<std::string>& special_parts();

struct Settings {
  std::optional<std::int64_t> model_max_length;
  Side padding_side = Side::right;
  Side truncation_side = Side::right;
  std::int64_t pad_token_type_id = 0;
  bool clean_up_tokenization_spaces = false;
  std::vector<std::string> model_input_names{"input_ids", "attention_mask"};
  /// By part, the token's text.
  std::map<std::string, std::string> special_tokens;
  std::vector<std::string> extra_special_tokens;
  /// Everything the file said, written back by `save_pretrained`.
  accelerate::Json config = accelerate::Json::object();

  bool takes(const std::string& input) const;
};

/// Reads the parsed tokenizer_config.json; `source` is what errors name, and
/// `model_type` what config.json says where this file names no class.
Settings read_settings(
    accelerate::Json config,
    const std::string& source,
    const std::string& model_type);

/// Lets what the configuration says about tokens change the pipeline: tokens
/// to add, the first space, and, where there was no tokenizer.json, tokens at
/// both ends.
void apply_settings(
    Settings& settings, Pipeline& pipeline, bool has_tokenizer_json);

}  // namespace transformers::tokenizers
