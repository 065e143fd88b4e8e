// SPDX-License-Identifier: Apache-2.0
#include "device/fused_blocks.h"

#include <atomic>

namespace accelerate {
namespace {

std::atomic<const FusedBlocks*> offered{nullptr};

}  // namespace

const FusedBlocks* fused_blocks() {
  return offered.load(std::memory_order_acquire);
}

void set_fused_blocks(const FusedBlocks* blocks) {
  offered.store(blocks, std::memory_order_release);
}

}  // namespace accelerate
