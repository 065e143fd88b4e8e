// SPDX-License-Identifier: Apache-2.0
// A folder that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>

#include "base/unique_fd.h"
#include "folders/leftovers.h"
#include "folders/manifest.h"

namespace accelerate {

/// In the name of a folder that is no checkpoint yet, or no more.
inline constexpr const char* kTemporary = ".tmp-";
/// Locked by who writes into a folder.
inline constexpr const char* kLockFile = ".lock";

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
  /// it throws `StateError`, and may be called again with another name. After
  /// an error the name is free, or has what it had. What was replaced and
  /// cannot be removed is a warning on stderr: the new one is safe by then.
  std::filesystem::path commit(
      const Manifest& manifest, const std::string& name, Existing existing);

 private:
  void complete(const Manifest& manifest);
  // These return where what had the name is now; empty when nothing had it.
  std::filesystem::path give_name(
      const std::filesystem::path& final, Existing existing);
  std::filesystem::path replace(const std::filesystem::path& final);
  std::filesystem::path replace_in_two_steps(
      const std::filesystem::path& final);
  void take_name_back(
      const std::filesystem::path& final, const std::filesystem::path& old);

  std::filesystem::path parent_;
  std::filesystem::path path_;
  UniqueFd lock_;
  bool has_manifest_ = false;
};

}  // namespace accelerate
