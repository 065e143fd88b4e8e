// SPDX-License-Identifier: Apache-2.0
// The first stage: converts the text to the form on which the model was
// trained.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizers/files/json_node.h"
#include "tokenizers/text/aligned_text.h"

namespace transformers::tokenizers {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Normalizes a text in place. Thread-safe.
  virtual void normalize(AlignedText& text) const = 0;
};

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

/// BERT's normalizer. The engine's fast path reads the normalizer's options.
class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options)
      : options_(options) {}
  void normalize(AlignedText& text) const override;
  const BertNormalizerOptions& options() const { return options_; }

 private:
  BertNormalizerOptions options_;
};

/// Creates the normalizer that the node describes. Throws `FormatError` with
/// the JSON path if the node is not valid.
std::unique_ptr<Normalizer> make_normalizer(const JsonNode& node);

std::unique_ptr<Normalizer> make_replace(const JsonNode& node);
std::unique_ptr<Normalizer> make_precompiled(const JsonNode& node);

}  // namespace transformers::tokenizers
