// SPDX-License-Identifier: Apache-2.0
// Collectives that operators start inside forward and backward passes.
#pragma once

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "accelerate/group.h"
#include "comm/group_call.h"

namespace accelerate {

/// The collectives of operators whose result depends on all ranks, such as
/// synchronized batch norm. One object per strategy.
///
/// NOTE [Collectives inside operators]
/// 1. As in every collective, the ranks compare the name of the operation
///    before data moves. If a rank evaluates while other ranks train, or takes
///    a different branch of the model, all ranks throw `MismatchError`.
/// 2. Every rank issues its operations in the same order: autograd runs the
///    same graph in the same order, and gradients are reduced only after the
///    backward pass, because hooks would start buckets at different times on
///    different ranks.
/// 3. Every backward pass ends with a separate agreement, whether or not
///    gradients are reduced. A rank whose backward pass throws uses a different
///    name in this agreement. The names then differ, so a rank that waits
///    inside an operator gets an error too, and all ranks leave the backward
///    pass.
///
/// Thread safety: the same as `Group`. During a backward pass, autograd may
/// call `all_reduce` on its own thread.
class OperatorCollectives {
 public:
  explicit OperatorCollectives(Group group);

  const Group& group() const { return group_; }

  /// Replaces `tensor` with the sum over all ranks. `name` is the operator's
  /// name in error messages; it must be the same on all ranks. Collective.
  ///
  /// Throws `MismatchError` if another rank makes a different call, and
  /// `RankError` if the backward pass of another rank has failed.
  void all_reduce(const std::string& name, const at::Tensor& tensor);

  /// Prepares for a backward pass. `reduction` is the group call with which the
  /// gradients are reduced; null if no gradients are reduced.
  void begin_backward(std::shared_ptr<GroupCall> reduction);
  /// Finishes a backward pass that has returned. Collective.
  ///
  /// Throws `RankError` if the backward pass of another rank has failed.
  void end_backward();
  /// Tells the other ranks that the backward pass of this rank has thrown.
  void fail_backward() noexcept;

 private:
  GroupCall agree(const std::string& name);

  Group group_;
  std::shared_ptr<GroupCall> reduction_;
  bool in_backward_ = false;
};

}  // namespace accelerate
