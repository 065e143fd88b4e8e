// SPDX-License-Identifier: Apache-2.0
// A collective call in which a rank starts several operations while it
// computes.
#pragma once

#include <exception>

#include "accelerate/export.h"
#include "accelerate/group.h"
#include "comm/wait_limits.h"

namespace accelerate {

/// A call on a group, consisting of several operations, such as the all-reduces
/// of a backward pass. The ranks compare their calls once, without delaying the
/// computation: a rank first announces the call, and checks later whether all
/// other ranks have announced the same call. This check detects, for example, a
/// rank that had fewer batches and is already evaluating. Operations start only
/// after the check has succeeded.
///
///     call.begin();
///     … if (call.agreed()) { pending.push_back(call.all_reduce(bucket)); } …
///     call.agree();
///     pending.push_back(call.all_reduce(last_bucket));
///
/// Every rank must start the same operations in the same order. Several
/// gradient paths may share a `GroupCall`.
class ACCELERATE_API GroupCall {
 public:
  /// `operation` is the name of the call in error messages.
  GroupCall(Group group, const char* operation);

  const Group& group() const { return group_; }

  /// Announces the next call. If the ranks are on several machines, waits for
  /// the other ranks. An error during this wait is thrown by `agree`.
  void begin();
  /// Returns whether this rank knows that all ranks are in this call. Never
  /// waits.
  bool agreed();
  /// Waits until every other rank has announced or made its next call.
  /// Collective.
  ///
  /// Throws `MismatchError` if another rank makes a different call. After an
  /// error, each further `agree` throws the same error until the next `begin`.
  void agree();

  /// Starts an all-reduce of `tensor` in place, as part of this call. Errors
  /// are thrown by `Pending::wait`.
  ///
  /// Set `overlap` to false if the caller has nothing to compute until the
  /// operation has finished: the operation then needs no other thread or
  /// stream.
  [[nodiscard]] Pending all_reduce(
      const Tensor& tensor, Reduction reduction, bool overlap = true);

  /// Overwrites `tensor`, which is in host memory, with the tensor of rank
  /// `from`, as part of this call.
  void broadcast(const Tensor& tensor, int from);
  /// Copies the r-th part of `input` on rank `from` to `output` on rank r, as
  /// part of this call. On rank `from`, `input` has as many elements as the
  /// outputs of all ranks together; on the other ranks, it is undefined. The
  /// tensors are in host memory.
  void scatter(const Tensor& output, const Tensor& input, int from);

 private:
  void compare();

  Group group_;
  Call call_;
  bool compared_ = true;
  std::exception_ptr error_;
};

}  // namespace accelerate
