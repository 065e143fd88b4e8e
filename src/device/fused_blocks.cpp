// SPDX-License-Identifier: Apache-2.0
#include "device/fused_blocks.h"

#include <atomic>

namespace accelerate {
namespace {

std::atomic<const FusedBlocks*> current_blocks{nullptr};

}  // namespace

const FusedBlocks* fused_blocks() {
  return current_blocks.load(std::memory_order_acquire);
}

void set_fused_blocks(const FusedBlocks* blocks) {
  current_blocks.store(blocks, std::memory_order_release);
}

}  // namespace accelerate
