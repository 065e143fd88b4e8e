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

// Touched in one go: the system keeps this process from getting or giving back
// memory meanwhile.
constexpr std::size_t kTouch = std::size_t{256} << 10;

}  // namespace

FreshMemory::FreshMemory(
    const std::size_t bytes, const std::string& what, const std::string& hint)
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
            "no ", bytes, " bytes of memory ", what, ": ", errno_text(errno)),
        hint);
  }
  data_ = static_cast<std::byte*>(memory);
}

void FreshMemory::touch(const std::atomic<bool>& stop) const {
  for (std::size_t at = 0; at < size_ && !stop; at += kTouch) {
    const std::size_t bytes = std::min(kTouch, size_ - at);
    // An old kernel does not know it: then the first copy has to do it.
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
