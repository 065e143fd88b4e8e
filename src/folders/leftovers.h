// SPDX-License-Identifier: Apache-2.0
// What writers leave beside checkpoints when they die or cannot tidy up.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate {

/// Whether a name is one of a folder that was not finished, or that is being
/// removed. That of a replaced checkpoint is not: it may be the only one.
bool is_temporary_name(const std::string& name);

/// Where a checkpoint goes while another takes its place, on file systems that
/// cannot exchange two: `<name>.old-<checksum of its manifest>`. So nobody
/// else's folder can be taken for one. Throws `IoError` without a manifest.
std::filesystem::path replaced_path(const std::filesystem::path& checkpoint);

/// What became of the folders that dead writers left.
struct Abandoned {
  std::vector<std::string> removed;
  /// Why others could not be; they are in nobody's way.
  std::vector<std::string> problems;
};

/// Removes what dead writers left in `parent`. A replaced checkpoint goes when
/// the one in its place is complete; where that never came, and no other
/// writer is at work, it gets its name back.
Abandoned remove_abandoned(const std::filesystem::path& parent);

/// Removes the replaced ones of a checkpoint that is complete.
Abandoned remove_replaced(const std::filesystem::path& checkpoint);

/// Removes a folder. It loses its name first, so that a crash in the middle
/// leaves only what `remove_abandoned` removes later. Of a link only the link
/// goes. Throws `IoError`.
void remove_folder(const std::filesystem::path& folder);

}  // namespace accelerate
