// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "config/environment.h"

namespace transformers {

/// The folder of everything of Hugging Face's: HF_HOME, else `huggingface` in
/// XDG_CACHE_HOME, else in `~/.cache`.
std::filesystem::path hugging_face_home(
    const accelerate::Environment& environment);

/// A path with `~` for the home folder in front of it written out.
std::filesystem::path with_home(
    const std::string& path, const accelerate::Environment& environment);

}  // namespace transformers
