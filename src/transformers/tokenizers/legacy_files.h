// SPDX-License-Identifier: Apache-2.0
// Loads tokenizers from folders that contain vocab.txt, or vocab.json and
// merges.txt, instead of tokenizer.json.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/json.h"
#include "transformers/tokenizers/pipeline.h"

namespace transformers::tokenizers {

/// The maximum size of a tokenizer file.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

/// Creates the BERT pipeline from vocab.txt, or the GPT-2 or RoBERTa pipeline
/// from vocab.json and merges.txt. Returns null if the folder does not contain
/// these files. `config` is the content of tokenizer_config.json; `family` is
/// `Family::name`.
std::unique_ptr<Pipeline> read_legacy_folder(
    const std::filesystem::path& folder,
    const accelerate::Json& config,
    const std::string& family);

}  // namespace transformers::tokenizers
