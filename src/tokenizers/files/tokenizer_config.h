// SPDX-License-Identifier: Apache-2.0
// The settings of a loaded tokenizer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizers/classes/class_arguments.h"
#include "tokenizers/classes/tokenizer_class.h"
#include "transformers/tokenizer_options.h"

namespace transformers::tokenizers {

struct TokenizerConfig {
  std::optional<std::int64_t> model_max_length;
  Side padding_side = Side::right;
  Side truncation_side = Side::right;
  bool clean_up_tokenization_spaces = false;
  /// Whether spaces are also cleaned up in text from a BPE model.
  bool clean_up_spaces_of_bpe = false;
  std::vector<std::string> model_input_names{"input_ids", "attention_mask"};
  /// The text of each special token, by name.
  std::map<std::string, std::string> special_tokens;
  std::vector<std::string> extra_special_tokens;
  /// The text at the end of each decoded word, such as `</w>`, which decoding
  /// replaces with a space. Empty if there is no such text.
  std::string end_of_word;
  /// The whole content of tokenizer_config.json, which `save_pretrained`
  /// writes.
  accelerate::Json json = accelerate::Json::object();

  bool takes(const std::string& input) const;
  /// Sets the class in `json`: `kind` if `is_rebuilt` is true, or else the
  /// class that uses tokenizer.json unchanged. `is_rebuilt` may be true only if
  /// `kind` builds the same pipeline again from the saved files.
  void set_saved_class(const TokenizerClass& kind, bool is_rebuilt);
};

/// Reads the settings from arguments that `complete_arguments` has completed.
/// Throws `FormatError` with the file and the JSON path when a value is not
/// valid.
TokenizerConfig read_tokenizer_config(
    const TokenizerClass& kind, const ClassArguments& arguments);

}  // namespace transformers::tokenizers
