// SPDX-License-Identifier: Apache-2.0
// Folders from before tokenizer.json: vocab.txt, or vocab.json and merges.txt.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/json.h"
#include "transformers/tokenizers/pipeline.h"

namespace transformers::tokenizers {

/// The largest file of a tokenizer that is read.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

/// Makes BERT's pipeline from vocab.txt, or GPT-2's or RoBERTa's from
/// vocab.json and merges.txt, whichever the folder holds; null when neither.
/// `config` is tokenizer_config.json's, `family` what kind it is.
std::unique_ptr<Pipeline> read_legacy_folder(
    const std::filesystem::path& folder,
    const accelerate::Json& config,
    const std::string& family);

}  // namespace transformers::tokenizers
