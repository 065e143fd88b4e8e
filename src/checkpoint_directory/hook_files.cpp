// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/hook_files.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"
#include "checkpoint_directory/manifest.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Works for files and for folders.
void sync_to_disk(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) {
    throw_errno("write", path, errno);
  }
}

}  // namespace

std::map<std::string, FileChecksum> collect_hook_files(const fs::path& folder) {
  std::map<std::string, FileChecksum> files;
  const fs::path hooks = folder / kHooksDirectory;
  if (!fs::exists(hooks)) {
    return files;
  }
  for (const auto& entry : fs::recursive_directory_iterator(hooks)) {
    const auto type = entry.symlink_status().type();
    if (type == fs::file_type::regular) {
      files[entry.path().lexically_relative(folder).string()] =
          checksum_file(entry.path());
    } else if (type != fs::file_type::directory) {
      throw IoError(
          str_cat(entry.path().string(), " is neither a file nor a folder"),
          "create only regular files and folders in the hook");
    }
    sync_to_disk(entry.path());
  }
  if (files.empty()) {
    fs::remove_all(hooks);
  } else {
    sync_to_disk(hooks);
  }
  return files;
}

}  // namespace accelerate
