// SPDX-License-Identifier: Apache-2.0
// Configuration files: the one shared with the Python package, and our own
// beside it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

/// `$HF_HOME/accelerate`, else `$XDG_CACHE_HOME/huggingface/accelerate`, else
/// `~/.cache/huggingface/accelerate`.
std::filesystem::path config_folder(const Environment& environment);
std::filesystem::path default_config_path(const Environment& environment);
/// `accelerate_cpp.yaml` in the same folder.
std::filesystem::path own_config_path(const std::filesystem::path& peer_path);

/// Replaces a leading `~/` by the home folder.
std::filesystem::path expand_home(
    const std::string& path, const Environment& environment);

/// Takes what a file says. Throws `ConfigError` as `path:line: …` for unknown
/// keys (with the nearest known one), wrong types and values, and what the
/// Python package has and this one does not.
void apply_config_file(
    Settings& settings, const std::filesystem::path& path, SettingFile kind);

/// The same for text already read; the path is for messages.
void apply_config_text(
    Settings& settings,
    const std::string& text,
    const std::string& path,
    SettingFile kind);

/// Takes the file a command should use: `explicit_path` (must exist), or the
/// default one if it is there, and our own beside it. Returns the files read.
std::vector<std::filesystem::path> apply_config_files(
    Settings& settings,
    const std::optional<std::string>& explicit_path,
    const Environment& environment);

/// The file the Python package reads back, keys sorted as it writes them; JSON
/// when `path` ends in `.json`.
std::string peer_file_text(
    const Settings& settings, const std::filesystem::path& path);
/// Our own settings that differ from their defaults; empty when none does.
std::string own_file_text(const Settings& settings);

}  // namespace accelerate
