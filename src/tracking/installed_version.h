// SPDX-License-Identifier: Apache-2.0
// Finds Python, and the version of an installed package, without running
// Python.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/environment.h"

namespace accelerate {

/// Returns the path of `python3` in the first folder of `PATH` that has one.
std::optional<std::filesystem::path> python_on_path(
    const Environment& environment);

/// Returns the version of `package` that `python3`, as found on `PATH`,
/// imports: from `PYTHONPATH`, from the folders of its virtual environment or
/// installation, or from the user's own packages. Returns nothing if there is
/// no such package.
std::optional<std::string> installed_version(
    const std::string& package, const Environment& environment);

/// Prints a warning if the installed version of `package` is not `supported`;
/// `0.31` includes `0.31.2`. The format that the tracker of the same name
/// writes is private to the package, and may differ between versions.
void warn_about_other_version(
    const std::string& package,
    const std::string& supported,
    const Environment& environment);

}  // namespace accelerate
