// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace accelerate::xla {

/// A private folder with a file for each program. Programs are machine code, so
/// a folder that other users can write to is rejected. A damaged file is
/// removed and counts as missing. Several processes may share a folder.
class ProgramStore {
 public:
  /// Throws `IoError` if the folder cannot be made private.
  explicit ProgramStore(std::filesystem::path folder);

  /// Returns the program that was saved for this key, or nothing.
  std::optional<std::string> load(const std::string& key) const;
  void save(const std::string& key, const std::string& program) const;
  /// Removes a program that could not be loaded.
  void drop(const std::string& key) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  std::filesystem::path folder_;
};

}  // namespace accelerate::xla
