// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/fused_blocks.h"

namespace transformers {

/// Disables the fused blocks for a scope: models use their reference path.
class ReferencePathOnly {
 public:
  ReferencePathOnly() : blocks_(accelerate::fused_blocks()) {
    accelerate::set_fused_blocks(nullptr);
  }
  ReferencePathOnly(const ReferencePathOnly&) = delete;
  ReferencePathOnly& operator=(const ReferencePathOnly&) = delete;
  ~ReferencePathOnly() { accelerate::set_fused_blocks(blocks_); }

 private:
  const accelerate::FusedBlocks* blocks_;
};

}  // namespace transformers
