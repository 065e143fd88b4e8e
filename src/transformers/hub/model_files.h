// SPDX-License-Identifier: Apache-2.0
// Which files of a model are wanted, and whether a folder has them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "transformers/hub.h"

namespace transformers::hub {

/// What is wanted, of `content` or of `files`.
struct Wanted {
  Content content = Content::model;
  std::vector<std::string> files = {};
};

inline constexpr const char* kWeights = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";

/// The files to fetch of those there are; the index in place of its shards.
///
/// Throws `IoError` for a name that is not there, `UnsupportedError` when
/// weights are wanted and all of them are pickled; both say `source`.
std::vector<std::string> choose_files(
    const Wanted& wanted,
    const std::vector<std::string>& there,
    const std::string& source);

/// The files that an index names. Throws `FormatError` for an index that is
/// none, or that names files outside its folder.
std::vector<std::string> shards_of(const std::filesystem::path& index);

/// What a snapshot lacks for what is wanted, as far as can be known without
/// the list of files: names or descriptions.
std::vector<std::string> missing_files(
    const Wanted& wanted, const std::filesystem::path& folder);

}  // namespace transformers::hub
