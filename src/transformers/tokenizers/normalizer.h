// SPDX-License-Identifier: Apache-2.0
// The first stage of a tokenizer: text to the text its model was trained on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transformers/tokenizers/aligned_text.h"
#include "transformers/tokenizers/json_node.h"

namespace transformers::tokenizers {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Thread-safe.
  virtual void normalize(AlignedText& text) const = 0;
};

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

/// BERT's, with options the engine's quick path can ask for.
class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options)
      : options_(options) {}
  void normalize(AlignedText& text) const override;
  const BertNormalizerOptions& options() const { return options_; }

 private:
  BertNormalizerOptions options_;
};

/// Makes what the node describes. Throws `FormatError` naming the JSON path.
std::unique_ptr<Normalizer> make_normalizer(const JsonNode& node);

std::unique_ptr<Normalizer> make_replace(const JsonNode& node);
std::unique_ptr<Normalizer> make_precompiled(const JsonNode& node);

}  // namespace transformers::tokenizers
