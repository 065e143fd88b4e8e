// SPDX-License-Identifier: Apache-2.0
// The index of weights that lie in several safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// File to the names of the tensors in it.
using SafetensorsIndex = std::map<std::string, std::vector<std::string>>;

/// Parses `{"weight_map": {"tensor": "file", …}}`. Each file is one of the
/// index's own folder. Throws `FormatError` naming `path` and the byte.
SafetensorsIndex parse_safetensors_index(
    std::string_view json, const std::string& path);

SafetensorsIndex read_safetensors_index(const std::filesystem::path& path);

}  // namespace accelerate
