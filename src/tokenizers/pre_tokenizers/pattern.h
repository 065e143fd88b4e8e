// SPDX-License-Identifier: Apache-2.0
// The pattern in a `Split` or `Replace`: a string or a regular expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/files/json_node.h"
#include "tokenizers/text/aligned_text.h"

namespace transformers::tokenizers {

class Pattern {
 public:
  virtual ~Pattern() = default;
  /// Appends the matches in `text` from left to right, including empty ones. An
  /// empty text has no matches. Thread-safe.
  virtual void find(
      std::string_view text, std::vector<Span>& matches) const = 0;
};

/// Creates the pattern from `{"String": …}` or `{"Regex": …}`. Uses
/// hand-written scanners for the expressions of GPT-2, Llama 3 and Qwen 2.
std::unique_ptr<Pattern> make_pattern(const JsonNode& node);

/// Creates a pattern from a regular expression in Oniguruma's syntax. Error
/// messages name the path of `node`. If matching needs more steps or memory
/// than is reasonable, `find` throws a `FormatError` that names the expression.
std::unique_ptr<Pattern> make_regex(
    const std::string& expression, const JsonNode& node);

}  // namespace transformers::tokenizers
