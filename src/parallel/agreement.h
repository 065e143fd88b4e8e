// SPDX-License-Identifier: Apache-2.0
// Checks that all ranks are in the same backward pass.
#pragma once

#include <exception>

#include "accelerate/group.h"

namespace accelerate {

/// Checks that every rank is in the same backward pass before gradients are
/// sent. A rank with fewer batches, for example, may already be evaluating. The
/// check must not delay the backward pass, so a rank first announces its
/// backward pass and checks later whether all other ranks have announced the
/// same backward pass. Gradients are sent only after this check has succeeded.
///
///     agreement.propose();
///     … if (agreement.reached()) { start ready buckets } …
///     agreement.settle();
///
/// Several gradient paths may share an `Agreement`.
class Agreement {
 public:
  explicit Agreement(Group group) : group_(std::move(group)) {}

  /// Announces a synchronizing backward pass. If the ranks are on several
  /// machines, waits for the other ranks. An error during this wait is thrown
  /// by `settle`.
  void propose();
  /// Whether all ranks are known to be in this backward pass. Never waits.
  bool reached();
  /// Waits until every other rank has announced or made its next call.
  /// Collective.
  ///
  /// Throws `MismatchError` if another rank makes a different call. After an
  /// error, each further `settle` throws the same error until the next
  /// `propose`.
  void settle();

 private:
  void compare();

  Group group_;
  bool settled_ = true;
  std::exception_ptr error_;
};

}  // namespace accelerate
