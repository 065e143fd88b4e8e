// SPDX-License-Identifier: Apache-2.0
// The private folder of one launch.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "config/environment.h"

namespace accelerate {

/// A folder `accelerate-XXXXXX` in TMPDIR for the store's socket and the files
/// of the workers. The destructor removes it; after a kill, the guardian does.
///
/// If the guardian was killed, too, the next launch of the same user removes
/// the folder: a locked file in it shows that its launcher is alive.
class LaunchDirectory {
 public:
  explicit LaunchDirectory(const Environment& environment);
  LaunchDirectory(const LaunchDirectory&) = delete;
  LaunchDirectory& operator=(const LaunchDirectory&) = delete;
  ~LaunchDirectory();

  const std::string& path() const { return path_; }

 private:
  void lock();

  std::string path_;
  UniqueFd lock_;
};

}  // namespace accelerate
