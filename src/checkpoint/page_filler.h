// SPDX-License-Identifier: Apache-2.0
// Copies data into memory that has not been touched yet, so that the system
// does not have to fill it with zeros first.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/unique_fd.h"

namespace accelerate {

/// The smallest size, in bytes, of tensors that are aligned to a page.
inline constexpr std::size_t kMinPageAlignedBytes = std::size_t{64} << 10;

std::size_t page_bytes();
/// Rounds a size up to a multiple of the page size.
std::size_t aligned_to_pages(std::size_t bytes);

/// Fills fresh memory with its initial contents. The system maps each page with
/// these contents instead of zeros. This takes half as long as touching the
/// page and then copying.
///
/// While the filler exists, no thread may touch a page that is not filled yet:
/// the thread would block until the filler is destroyed.
///
/// Thread safety: several threads may call `fill` at the same time, for
/// different pages.
class PageFiller {
 public:
  /// Returns a filler for fresh memory, which must begin at a page boundary.
  /// Returns null if userfaultfd is missing or forbidden (as in some
  /// containers), or if the system uses huge pages.
  static std::unique_ptr<PageFiller> over(std::byte* memory, std::size_t bytes);
  PageFiller(const PageFiller&) = delete;
  PageFiller& operator=(const PageFiller&) = delete;
  ~PageFiller() = default;

  /// Returns whether an address is in the memory of this filler.
  bool covers(const std::byte* at) const {
    return at >= memory_ && at < memory_ + bytes_;
  }

  /// Copies `bytes` bytes to `to`, which must be at a page boundary, and fills
  /// the rest of the last page with zeros. The Linux kernel copies all whole
  /// pages. If the kernel cannot read `from`, for example because of a disk
  /// error in a mapped file, the call fails and the process survives. This
  /// process copies a last partial page itself, without this protection.
  ///
  /// Returns false if the kernel rejected the copy or could not read `from`.
  /// After a failure, threads that touch a page no longer block.
  bool fill(std::byte* to, const std::byte* from, std::size_t bytes);

 private:
  PageFiller(UniqueFd fd, std::byte* memory, std::size_t bytes)
      : fd_(std::move(fd)), memory_(memory), bytes_(bytes) {}
  bool fill_pages(std::byte* to, const std::byte* from, std::size_t bytes);
  void unregister();

  UniqueFd fd_;  // Closing it unblocks threads that wait for pages.
  std::byte* memory_;
  std::size_t bytes_;
};

}  // namespace accelerate
