// SPDX-License-Identifier: Apache-2.0
// A folder that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "folders/manifest.h"

namespace accelerate {

/// What becomes of a folder that already has the name.
enum class Existing {
  refuse,   ///< `StateError`
  replace,  ///< exchanged in one step, if it is a checkpoint
};

/// Files are written into `<name>.tmp-<nonce>`; `commit` writes the manifest
/// and gives the folder its name. Without `commit` nothing is left.
///
/// One process makes it; others write into `path()` before `commit`. A lock
/// in the folder tells a writer that lives from one that died.
class StagedFolder {
 public:
  /// Creates missing parents. Throws `IoError`, as all of it does.
  explicit StagedFolder(const std::filesystem::path& parent);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();

  const std::filesystem::path& path() const { return path_; }

  /// Returns the final path. With `Existing::refuse` and a name that is taken
  /// it throws `StateError`, and may be called again with another name.
  std::filesystem::path commit(
      const Manifest& manifest, const std::string& name, Existing existing);

 private:
  void give_name(const std::filesystem::path& final, Existing existing);

  std::filesystem::path parent_;
  std::filesystem::path path_;
  UniqueFd lock_;
  bool has_manifest_ = false;
};

/// Whether a name is one of a folder that was not finished, or that was
/// replaced and not yet removed.
bool is_temporary_name(const std::string& name);

/// What became of the folders that dead writers left.
struct Abandoned {
  std::vector<std::string> removed;
  /// Why others could not be; they are in nobody's way.
  std::vector<std::string> problems;
};

/// Removes what dead writers left in `parent`.
Abandoned remove_abandoned(const std::filesystem::path& parent);

/// Removes a folder. It loses its name first, so that a crash in the middle
/// leaves only what `remove_abandoned` removes later. Of a link only the link
/// goes.
void remove_folder(const std::filesystem::path& folder);

}  // namespace accelerate
