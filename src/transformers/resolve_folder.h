// SPDX-License-Identifier: Apache-2.0
// Where the files of a model lie.
#pragma once

#include <filesystem>
#include <string>

namespace transformers {

/// The folder that a name given to `from_pretrained` stands for. Throws
/// `IoError` naming what was looked for.
std::filesystem::path resolve_folder(const std::string& name);

}  // namespace transformers
