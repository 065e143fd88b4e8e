// SPDX-License-Identifier: Apache-2.0
#include "state/gradient_state.h"

#include <algorithm>

namespace accelerate {

void GradientState::enter(const LoaderPosition* loader) {
  loops_.push_back(loader);
  last_ = loader;
}

// An exception may end several nested loops without a call to `leave` for each
// of them, so this function also removes the loops inside the loop over
// `loader`.
void GradientState::leave(const LoaderPosition* loader) {
  const auto found = std::find(loops_.rbegin(), loops_.rend(), loader);
  if (found != loops_.rend()) {
    loops_.erase(found.base() - 1, loops_.end());
  }
}

void GradientState::forget(const LoaderPosition* loader) {
  leave(loader);
  std::erase(loops_, loader);
  if (last_ == loader) {
    last_ = nullptr;
  }
}

const LoaderPosition* GradientState::active() const {
  return loops_.empty() ? last_ : loops_.back();
}

bool GradientState::end_of_dataloader() const {
  return !loops_.empty() && loops_.back()->end_of_dataloader();
}

}  // namespace accelerate
