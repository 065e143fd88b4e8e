// SPDX-License-Identifier: Apache-2.0
// Determines which files of a model to fetch, and whether a folder contains
// these files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "transformers/hub.h"

namespace transformers::hub {

/// Which files to fetch: the listed `files`, or the files that `content` needs
/// if `files` is empty.
struct RequestedFiles {
  Content content = Content::model;
  std::vector<std::string> files = {};
};

inline constexpr const char* kWeights = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";

/// Returns the `available` files that must be fetched. For sharded weights, the
/// result contains the index but not the shards.
///
/// Throws `IoError` for a requested file name that is not available, and
/// `UnsupportedError` when all weights are pickled. Both messages name
/// `source`.
std::vector<std::string> choose_files(
    const RequestedFiles& requested,
    const std::vector<std::string>& available,
    const std::string& source);

/// Returns the weight files (shards) that an index lists. Throws `FormatError`
/// if the index is malformed or lists a file outside its folder.
std::vector<std::string> shards_of(const std::filesystem::path& index);

/// Returns the requested files that a folder does not contain, as far as this
/// can be determined without the model's list of files.
std::vector<std::string> missing_files(
    const RequestedFiles& requested, const std::filesystem::path& folder);

}  // namespace transformers::hub
