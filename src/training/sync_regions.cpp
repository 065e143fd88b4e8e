// SPDX-License-Identifier: Apache-2.0
#include "training/sync_regions.h"

#include <utility>

namespace accelerate {

void SyncRegions::begin_local_training() {
  ++depth_;
  ++local_trainers_;
}

void SyncRegions::end_local_training() {
  --depth_;
  --local_trainers_;
}

// Even with a single process, optimizers must not step before gradient
// accumulation is complete.
Sync SyncRegions::next(bool completes_group, bool each_batch) {
  triggered_now_ = std::exchange(triggered_, false);
  local_sync_ = completes_group ? Sync::visible : Sync::later;
  if (depth_ > 0 && !triggered_now_) {
    return local_sync_;
  }
  if (completes_group) {
    return Sync::now;
  }
  return each_batch ? Sync::hidden : Sync::later;
}

Sync SyncRegions::sync_of(const torch::nn::Module* model, Sync sync) const {
  const auto found = models_.find(model);
  return found != models_.end() && found->second > 0 && !triggered_now_
             ? local_sync_
             : sync;
}

// After `no_sync`, `.grad` may hold only a part of the sum; in local training
// it is the whole gradient.
bool SyncRegions::is_update(Sync sync) const {
  return sync == Sync::now || (sync == Sync::visible && trains_locally());
}

}  // namespace accelerate
