// SPDX-License-Identifier: Apache-2.0
// The folders for a user's configuration, caches and downloads.
#pragma once

#include <filesystem>
#include <string>

#include "config/environment.h"

namespace accelerate {

/// Replaces a leading `~` or `~/` with the home folder: `HOME`, or else the
/// home folder in the password database. Throws `ConfigError` if there is
/// neither.
std::filesystem::path expand_home(
    const std::string& path, const Environment& environment);

/// Returns the folder of Hugging Face's files: `HF_HOME`, or else `huggingface`
/// in `XDG_CACHE_HOME`, or else `~/.cache/huggingface`.
std::filesystem::path hugging_face_home(const Environment& environment);

/// Returns the folder of the configuration files: `accelerate` in
/// `hugging_face_home`.
std::filesystem::path config_folder(const Environment& environment);

/// Returns the folder of this user's compiled programs and precompiled headers:
/// `accelerate-cpp` in `XDG_CACHE_HOME`, or else in `~/.cache`.
std::filesystem::path cache_folder(const Environment& environment);

}  // namespace accelerate
