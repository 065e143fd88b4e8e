// SPDX-License-Identifier: Apache-2.0
// Reads whole files with a size limit, and writes whole files atomically.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace accelerate {

/// Returns the file's content. Throws an `IoError` that names the path and the
/// reason if the file cannot be read or is larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

/// Like `read_file`, for the open file `fd`; error messages name `path`.
std::string read_descriptor(
    int fd, const std::filesystem::path& path, std::size_t max_bytes);

/// Writes a temporary file next to `path` and renames it, so that readers see
/// either the old or the new content. Creates missing folders. The umask
/// applies to `mode`.
void write_file(
    const std::filesystem::path& path,
    std::string_view content,
    mode_t mode = 0666);

/// Throws `IoError` with the text "cannot <action> <path>: <errno text>".
[[noreturn]] void throw_errno(
    std::string_view action, const std::filesystem::path& path, int error);

/// Returns the system's text for an error number.
std::string errno_text(int error);

}  // namespace accelerate
