// SPDX-License-Identifier: Apache-2.0
#include "base/progress_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/unique_fd.h"

namespace accelerate {
namespace {

using Step = std::atomic<std::int64_t>;
static_assert(Step::is_always_lock_free && sizeof(Step) == 8);

constexpr std::int64_t kNoStep = -1;

}  // namespace

void create_progress_file(const std::string& path) {
  // Makes a new file each time: a worker left over from an earlier run keeps
  // writing to the old file.
  ::unlink(path.c_str());
  const UniqueFd file(
      ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), &kNoStep, sizeof(kNoStep)) !=
                   static_cast<ssize_t>(sizeof(kNoStep))) {
    throw_errno("create", path, errno);
  }
}

std::optional<std::int64_t> read_progress(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::int64_t step = kNoStep;
  if (!file || ::pread(file.get(), &step, sizeof(step), 0) !=
                   static_cast<ssize_t>(sizeof(step))) {
    return std::nullopt;
  }
  return step < 0 ? std::nullopt : std::optional(step);
}

ProgressWriter::ProgressWriter(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info{};
  // A write past the end of a shorter file would raise SIGBUS.
  if (!file || ::fstat(file.get(), &info) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(Step))) {
    return;
  }
  void* memory = ::mmap(
      nullptr, sizeof(Step), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory != MAP_FAILED) {
    step_ = static_cast<Step*>(memory);
  }
}

ProgressWriter::~ProgressWriter() {
  if (step_ != nullptr) {
    ::munmap(static_cast<void*>(step_), sizeof(Step));
  }
}

void ProgressWriter::write(std::int64_t step) noexcept {
  if (step_ != nullptr) {
    step_->store(step, std::memory_order_relaxed);
  }
}

}  // namespace accelerate
