// SPDX-License-Identifier: Apache-2.0
// Whole files, read with a limit and written so that nobody sees half of one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace accelerate {

/// Returns the file's content. Throws `IoError` naming path and reason, also
/// when the file is larger than `max_bytes` (nothing is read then).
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

/// The same for what is open; `path` is for errors.
std::string read_descriptor(
    int fd, const std::filesystem::path& path, std::size_t max_bytes);

/// Writes through a temporary file beside `path` and a rename: readers see the
/// old content or the new one. Creates missing folders.
void write_file(
    const std::filesystem::path& path,
    std::string_view content,
    mode_t mode = 0644);

/// Throws `IoError`: "cannot <action> <path>: <what errno says>".
[[noreturn]] void throw_errno(
    std::string_view action, const std::filesystem::path& path, int error);

/// What the system says about an error number.
std::string errno_text(int error);

}  // namespace accelerate
