// SPDX-License-Identifier: Apache-2.0
// Whether all ranks are in the same backward.
#pragma once

#include <exception>

#include "accelerate/group.h"

namespace accelerate {

/// Before gradients travel, every rank must be in the same backward: a rank
/// with fewer batches may be in an evaluation by now. Finding that out must
/// not hold up the backward, so a rank says what it does and looks later
/// whether the others have; nothing is sent before they did.
///
///     agreement.propose();
///     … if (agreement.reached()) { start what is ready } …
///     agreement.settle();
///
/// Several gradient paths may share one.
class Agreement {
 public:
  explicit Agreement(Group group) : group_(std::move(group)) {}

  /// A synchronising backward begins. Between hosts, where only waiting tells,
  /// waits for the others. Keeps an error for `settle`.
  void propose();
  /// Whether all ranks are known to be in this backward. Never waits.
  bool reached();
  /// Waits for the others. Collective.
  ///
  /// Throws, each time until the next `propose`, `MismatchError` when they do
  /// something else.
  void settle();

 private:
  void find_out();

  Group group_;
  bool settled_ = true;
  std::exception_ptr error_;
};

}  // namespace accelerate
