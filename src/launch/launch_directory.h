// SPDX-License-Identifier: Apache-2.0
// The private folder of one launch.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "config/environment.h"

namespace accelerate {

/// A folder `accelerate-XXXXXX` in TMPDIR for the store's socket and the files
/// of the workers. The destructor removes the folder; if the launcher is
/// killed, the guardian removes it.
///
/// The launcher keeps a file in the folder locked. If the guardian was killed
/// as well, the next launch by the same user removes the folder, because the
/// file is no longer locked.
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
