// SPDX-License-Identifier: Apache-2.0
// Reads and formats the two configuration files: the file shared with Hugging
// Face Accelerate, and `accelerate_cpp.yaml` in the same folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

/// Returns the path of the default configuration file.
std::filesystem::path default_config_path(const Environment& environment);
/// Returns the path of `accelerate_cpp.yaml` in the folder that contains
/// `python_path`.
std::filesystem::path cpp_config_path(const std::filesystem::path& python_path);

/// Throws `ConfigError` if `python_path` is not in `config_folder` and a
/// setting that chooses a program (`Setting::chooses_program`) was passed as a
/// flag. `apply_config_files` would reject this setting in the saved file.
void check_can_be_saved(
    const Settings& settings,
    const std::filesystem::path& python_path,
    const Environment& environment);

/// Applies the settings in the file `path`. Throws a `ConfigError` that starts
/// with `path:line:` for unknown keys (the error gives the nearest known key),
/// wrong types, wrong values, and features of Hugging Face Accelerate that this
/// version does not support.
void apply_config_file(
    Settings& settings, const std::filesystem::path& path, SettingFile kind);

/// Like `apply_config_file`, for the text of a file. `path` is used only for
/// error messages and for the origins of settings.
void apply_config_text(
    Settings& settings,
    const std::string& text,
    const std::string& path,
    SettingFile kind);

/// Applies the file `explicit_path`, which must exist. Without `explicit_path`,
/// applies the default file if that file exists. Then applies
/// `accelerate_cpp.yaml` in the same folder if it exists. Returns the files
/// that were read.
///
/// Throws `ConfigError` if a file that chooses a program to run, such as a
/// compiler, is outside `config_folder` or can be written by other users.
std::vector<std::filesystem::path> apply_config_files(
    Settings& settings,
    const std::optional<std::string>& explicit_path,
    const Environment& environment);

/// Returns the text of a configuration file that Hugging Face Accelerate can
/// read, with the keys in the order in which Accelerate writes them. The text
/// is JSON if `path` ends in `.json`, else YAML.
std::string python_file_text(
    const Settings& settings, const std::filesystem::path& path);
/// Returns the text of `accelerate_cpp.yaml`, which contains only settings that
/// differ from their defaults. Empty if no setting differs.
std::string cpp_file_text(const Settings& settings);

}  // namespace accelerate
