// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/settling.h"

#include <algorithm>
#include <utility>

#include <sys/mman.h>

namespace accelerate {
namespace {

// The system keeps this process from getting or giving back memory meanwhile,
// so a piece is short, and the thread's priority an ordinary one: one that
// yields would make training wait for it.
constexpr std::size_t kMoved = std::size_t{256} << 10;

// Writes to every page, as far as the system is concerned: then it is ours. A
// kernel that cannot do it leaves it to the first real write.
void move_into_memory(const MappedFile& file, const std::atomic<bool>& stop) {
  for (std::size_t at = 0; at < file.size() && !stop; at += kMoved) {
    const std::size_t bytes = std::min(kMoved, file.size() - at);
    if (::madvise(file.data() + at, bytes, MADV_POPULATE_WRITE) != 0) {
      return;
    }
  }
}

}  // namespace

Settling::~Settling() {
  stop_ = true;
  finish();
}

void Settling::start(const std::vector<std::weak_ptr<MappedFile>>& files) {
  finish();
  std::vector<std::shared_ptr<MappedFile>> living;
  for (const auto& file : files) {
    if (auto held = file.lock()) {
      living.push_back(std::move(held));
    }
  }
  if (living.empty()) {
    return;
  }
  work_ = std::async(std::launch::async, [this, living = std::move(living)] {
    for (const auto& file : living) {
      move_into_memory(*file, stop_);
    }
  });
}

void Settling::finish() {
  if (work_.valid()) {
    work_.get();
  }
}

}  // namespace accelerate
