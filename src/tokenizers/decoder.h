// SPDX-License-Identifier: Apache-2.0
// Converts tokens back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizers/files/json_node.h"

namespace transformers::tokenizers {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Converts tokens to parts of the text, in place. Thread-safe.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

/// Creates the decoder that the node describes. Throws `FormatError` with the
/// JSON path if the node is not valid.
std::unique_ptr<Decoder> make_decoder(const JsonNode& node);

/// Removes the spaces that English tokenization inserts before punctuation.
std::string clean_up_tokenization(std::string text);

}  // namespace transformers::tokenizers
