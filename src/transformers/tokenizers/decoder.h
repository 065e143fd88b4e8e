// SPDX-License-Identifier: Apache-2.0
// Tokens back into text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transformers/tokenizers/json_node.h"

namespace transformers::tokenizers {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Turns tokens into parts of the text. Thread-safe.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

/// Makes what the node describes. Throws `FormatError` naming the JSON path.
std::unique_ptr<Decoder> make_decoder(const JsonNode& node);

/// Undoes the spaces that English tokenization puts before punctuation.
std::string clean_up_tokenization(std::string text);

}  // namespace transformers::tokenizers
