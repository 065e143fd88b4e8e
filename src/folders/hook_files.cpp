// SPDX-License-Identifier: Apache-2.0
#include "folders/hook_files.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"
#include "folders/manifest.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Files and folders alike.
void bring_to_disk(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) {
    throw_errno("write", path, errno);
  }
}

}  // namespace

std::map<std::string, FileSum> take_hook_files(const fs::path& folder) {
  std::map<std::string, FileSum> files;
  const fs::path place = folder / kHooksFolder;
  if (!fs::exists(place)) {
    return files;
  }
  for (const auto& entry : fs::recursive_directory_iterator(place)) {
    const auto type = entry.symlink_status().type();
    if (type == fs::file_type::regular) {
      files[entry.path().lexically_relative(folder).string()] =
          sum_of_file(entry.path());
    } else if (type != fs::file_type::directory) {
      throw IoError(
          str_cat(entry.path().string(), " is neither a file nor a folder"),
          "let the hook write files of their own");
    }
    bring_to_disk(entry.path());
  }
  if (files.empty()) {
    fs::remove_all(place);
  } else {
    bring_to_disk(place);
  }
  return files;
}

}  // namespace accelerate
