// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/local_disk.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <linux/magic.h>
#include <sys/vfs.h>

namespace accelerate {
namespace {

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

constexpr std::array<std::uint64_t, 6> kLocal{
    EXT4_SUPER_MAGIC,
    XFS_SUPER_MAGIC,
    BTRFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC,
    OVERLAYFS_SUPER_MAGIC,
    TMPFS_MAGIC};

}  // namespace

bool is_on_local_disk(const std::filesystem::path& path) {
  struct statfs status{};
  return ::statfs(path.c_str(), &status) == 0 &&
         std::ranges::count(kLocal, static_cast<std::uint64_t>(status.f_type)) >
             0;
}

}  // namespace accelerate
