// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/fresh_memory.h"

#include <algorithm>
#include <cerrno>

#include <sys/mman.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// Bytes touched per call. During a call, the process cannot map or unmap
// memory.
constexpr std::size_t kTouch = std::size_t{256} << 10;

}  // namespace

FreshMemory::FreshMemory(
    const std::size_t bytes,
    const std::string& purpose,
    const std::string& hint)
    : size_(bytes) {
  void* memory = ::mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS,
      -1,
      0);
  if (memory == MAP_FAILED) {
    throw OutOfMemoryError(
        str_cat(
            "cannot allocate ",
            bytes,
            " bytes of memory ",
            purpose,
            ": ",
            errno_text(errno)),
        hint);
  }
  data_ = static_cast<std::byte*>(memory);
}

void FreshMemory::touch(const std::atomic<bool>& stop) const {
  for (std::size_t at = 0; at < size_ && !stop; at += kTouch) {
    const std::size_t bytes = std::min(kTouch, size_ - at);
    // An old Linux kernel does not support MADV_POPULATE_WRITE. The first copy
    // then touches the pages.
    if (::madvise(data_ + at, bytes, MADV_POPULATE_WRITE) != 0) {
      return;
    }
    touched_ = at + bytes;
  }
}

FreshMemory::~FreshMemory() {
  ::munmap(data_, size_);
}

}  // namespace accelerate
