// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/fused_blocks.h"

namespace transformers {

/// Takes the fused path away for a scope.
class Readable {
 public:
  Readable() : blocks_(accelerate::fused_blocks()) {
    accelerate::set_fused_blocks(nullptr);
  }
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;
  ~Readable() { accelerate::set_fused_blocks(blocks_); }

 private:
  const accelerate::FusedBlocks* blocks_;
};

}  // namespace transformers
