// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/mapped_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/unique_fd.h"

namespace transformers::tokenizers {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const accelerate::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    accelerate::throw_errno("read", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    accelerate::throw_errno(
        "read", path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return;
  }
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) {
    accelerate::throw_errno("map", path, errno);
  }
  text_ = {static_cast<const char*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!text_.empty()) {
    ::munmap(const_cast<char*>(text_.data()), text_.size());
  }
}

}  // namespace transformers::tokenizers
