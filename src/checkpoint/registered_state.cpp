// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/registered_state.h"

#include <utility>

namespace accelerate {

std::function<void()> CheckpointHooks::add(CheckpointHook hook) {
  const auto position = hooks_->insert(hooks_->end(), std::move(hook));
  return [weak = std::weak_ptr(hooks_), position] {
    if (const auto hooks = weak.lock()) {
      hooks->erase(position);
    }
  };
}

void CheckpointHooks::run(
    std::vector<TensorMap>& weights,
    const std::filesystem::path& folder) const {
  for (const CheckpointHook& hook : *hooks_) {
    hook(weights, folder);
  }
}

}  // namespace accelerate
