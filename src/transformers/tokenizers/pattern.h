// SPDX-License-Identifier: Apache-2.0
// What a `Split` or a `Replace` looks for: a string, or a regular expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transformers/tokenizers/aligned_text.h"
#include "transformers/tokenizers/json_node.h"

namespace transformers::tokenizers {

class Pattern {
 public:
  virtual ~Pattern() = default;
  /// Appends the matches in `text`, left to right, none empty. Thread-safe.
  virtual void find(
      std::string_view text, std::vector<Span>& matches) const = 0;
};

/// Makes what `{"String": …}` or `{"Regex": …}` describes. The expressions of
/// GPT-2, Llama 3 and Qwen 2 become hand-written scanners.
std::unique_ptr<Pattern> make_pattern(const JsonNode& node);

/// A PCRE2 expression. `where` is what errors name.
std::unique_ptr<Pattern> make_regex(
    const std::string& expression, const JsonNode& where);

}  // namespace transformers::tokenizers
