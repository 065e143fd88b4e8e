// SPDX-License-Identifier: Apache-2.0
// Copies into memory that nobody has touched, without the zeros first.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/unique_fd.h"

namespace accelerate {

/// Bytes of a tensor for which it pays to begin a page.
inline constexpr std::size_t kWorthPages = std::size_t{64} << 10;

std::size_t page_bytes();
std::size_t aligned_to_pages(std::size_t bytes);

/// Gives memory its first content. The system hands out each page with that
/// content in place of zeros, which takes half as long as touching the page
/// and copying.
///
/// While it lives, nobody may touch what it has not filled: they would wait
/// until it is gone.
///
/// Thread safety: `fill` may be called for different pages at once.
class PageFiller {
 public:
  /// For fresh memory that begins a page. Nothing where the system lacks it
  /// (userfaultfd), forbids it, as some containers do, or gives huge pages.
  static std::unique_ptr<PageFiller> over(std::byte* memory, std::size_t bytes);
  PageFiller(const PageFiller&) = delete;
  PageFiller& operator=(const PageFiller&) = delete;
  ~PageFiller() = default;

  bool covers(const std::byte* at) const {
    return at >= memory_ && at < memory_ + bytes_;
  }

  /// Copies to a place that begins a page; the rest of the last page becomes
  /// zeros. The system reads whole pages of `from` itself: one that cannot be
  /// read ends nobody. False: it refused or could not read, and the memory may
  /// be touched as any other, now and by others.
  bool fill(std::byte* to, const std::byte* from, std::size_t bytes);

 private:
  PageFiller(UniqueFd fd, std::byte* memory, std::size_t bytes)
      : fd_(std::move(fd)), memory_(memory), bytes_(bytes) {}
  bool fill_pages(std::byte* to, const std::byte* from, std::size_t bytes);
  void give_up();

  UniqueFd fd_;  // Closing it frees what was not filled.
  std::byte* memory_;
  std::size_t bytes_;
};

}  // namespace accelerate
