// SPDX-License-Identifier: Apache-2.0
// Translates the errors of LibTorch's stores.
#pragma once

#include <string>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/error.h"
#include "accelerate/fwd.h"

namespace accelerate {

/// A request to a store failed, usually because the process with the store has
/// exited.
class StoreError : public DistributedError {
 public:
  using DistributedError::DistributedError;
  ~StoreError() override;
};

/// The message and the hint of a `StoreError`.
struct StoreErrorText {
  /// For example "lost the connection to the store in rank 0".
  std::string failure;
  std::string hint;
};

/// Returns the text for a lost connection to the store. `owner` names the
/// process that serves the store, for example "rank 0".
StoreErrorText lost_store_text(const std::string& owner);

/// Returns a store that forwards every request to `store` and throws
/// `StoreError` instead of the errors of LibTorch and of the system. Timeouts
/// are not translated. Returns `store` itself if it already throws this
/// library's errors.
c10::intrusive_ptr<c10d::Store> report_errors(
    const c10::intrusive_ptr<c10d::Store>& store, StoreErrorText text);

}  // namespace accelerate
