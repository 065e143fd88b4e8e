// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/page_filler.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace accelerate {
namespace {

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

__u64 address_of(const std::byte* at) {
  return reinterpret_cast<__u64>(at);
}

// Handling only faults in user mode needs no privileges.
UniqueFd open_userfaultfd() {
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
}

// With huge pages, an ordinary copy is as fast as a filler, and later accesses
// are faster.
bool system_gives_huge_pages() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(setting, text) && text.find("[always]") != text.npos;
}

}  // namespace

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t aligned_to_pages(const std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

std::unique_ptr<PageFiller> PageFiller::over(
    std::byte* memory, const std::size_t bytes) {
  if (bytes == 0 || system_gives_huge_pages()) {
    return nullptr;
  }
  UniqueFd fd = open_userfaultfd();
  uffdio_api api{};
  api.api = UFFD_API;
  uffdio_register range{};
  range.range = {address_of(memory), aligned_to_pages(bytes)};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (fd.get() < 0 || ::ioctl(fd.get(), UFFDIO_API, &api) != 0 ||
      ::ioctl(fd.get(), UFFDIO_REGISTER, &range) != 0) {
    return nullptr;
  }
  return std::unique_ptr<PageFiller>(
      new PageFiller(std::move(fd), memory, bytes));
}

bool PageFiller::fill(
    std::byte* to, const std::byte* from, const std::size_t bytes) {
  const std::size_t whole = bytes / page_bytes() * page_bytes();
  if (!fill_pages(to, from, whole)) {
    return false;
  }
  if (whole == bytes) {
    return true;
  }
  std::vector<std::byte> last(page_bytes());
  std::memcpy(last.data(), from + whole, bytes - whole);
  return fill_pages(to + whole, last.data(), last.size());
}

bool PageFiller::fill_pages(
    std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr int kTries = 1000;
  int tries = 0;
  while (bytes > 0) {
    uffdio_copy copy{};
    copy.dst = address_of(to);
    copy.src = address_of(from);
    copy.len = bytes;
    if (::ioctl(fd_.get(), UFFDIO_COPY, &copy) == 0) {
      return true;
    }
    // Another thread is changing the memory map of this process: retry.
    const bool retry = errno == EAGAIN && ++tries < kTries;
    const auto done = static_cast<std::size_t>(copy.copy > 0 ? copy.copy : 0);
    if (!retry && done == 0) {
      unregister();
      return false;
    }
    to += done;
    from += done;
    bytes -= done;
  }
  return true;
}

void PageFiller::unregister() {
  uffdio_range range{address_of(memory_), aligned_to_pages(bytes_)};
  ::ioctl(fd_.get(), UFFDIO_UNREGISTER, &range);
}

}  // namespace accelerate
