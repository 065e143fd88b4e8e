// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <sys/stat.h>

namespace accelerate::test {

/// Sets the umask of this process until the end of the scope.
class UmaskGuard {
 public:
  explicit UmaskGuard(mode_t mask) : previous_(::umask(mask)) {}
  UmaskGuard(const UmaskGuard&) = delete;
  UmaskGuard& operator=(const UmaskGuard&) = delete;
  ~UmaskGuard() { ::umask(previous_); }

 private:
  mode_t previous_;
};

/// Returns the permissions of a file or folder, as an octal number.
inline unsigned mode_of(const std::filesystem::path& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
}

}  // namespace accelerate::test
