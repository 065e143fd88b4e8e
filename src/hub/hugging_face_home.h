// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "config/environment.h"

namespace transformers {

/// Returns the folder for Hugging Face's files: HF_HOME, or else `huggingface`
/// in XDG_CACHE_HOME, or else `~/.cache/huggingface`.
std::filesystem::path hugging_face_home(
    const accelerate::Environment& environment);

/// Expands a leading `~` to the home folder.
std::filesystem::path expand_home(
    const std::string& path, const accelerate::Environment& environment);

}  // namespace transformers
