// SPDX-License-Identifier: Apache-2.0
// Where trackers put the files of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/tracker.h"

namespace accelerate {

/// Turns `name` into a valid name for a single file or folder. Escapes control
/// characters, a leading `.`, and characters that some systems forbid in names;
/// for example, `/` becomes `%2F`. Shortens a long name and appends a checksum.
/// Different names stay different.
std::string file_name_of(std::string_view name);

/// Returns `text` with each byte that is not valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string text);

/// Returns the folder of a run: `<logging_dir>/<project>/<run>`.
std::filesystem::path run_folder(
    const TrackerSetup& setup, const std::string& run);

/// Returns a new name for a run, which consists of the current time and random
/// characters.
std::string new_run_name();

/// Returns the current time in microseconds since 1970.
std::int64_t now_us();

/// Throws `ArgumentError` if `setup.kwargs` has a member that is not in
/// `known`.
void check_kwargs(
    const TrackerSetup& setup,
    const std::string& tracker,
    const std::vector<std::string>& known);

/// Returns the member `key` of `setup.kwargs`, or `otherwise` if it is missing.
/// Throws `ArgumentError` if the member is not text.
std::string text_kwarg(
    const TrackerSetup& setup,
    const std::string& tracker,
    const std::string& key,
    const std::string& otherwise);

}  // namespace accelerate
