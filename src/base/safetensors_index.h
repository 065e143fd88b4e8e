// SPDX-License-Identifier: Apache-2.0
// The index of weights that are split across several safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Maps each file name to the names of the tensors in the file.
using SafetensorsIndex = std::map<std::string, std::vector<std::string>>;

/// Parses `{"weight_map": {"tensor": "file", …}}`. Each file must be in the
/// folder of the index. Throws a `FormatError` that names `path` and the byte
/// offset of the error.
SafetensorsIndex parse_safetensors_index(
    std::string_view json, const std::string& path);

SafetensorsIndex read_safetensors_index(const std::filesystem::path& path);

}  // namespace accelerate
