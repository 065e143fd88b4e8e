// SPDX-License-Identifier: Apache-2.0
#include "comm/group_call.h"

#include <utility>

#include "comm/group_impl.h"

namespace accelerate {

GroupCall::GroupCall(Group group, const char* operation)
    : group_(std::move(group)), call_{operation} {
}

void GroupCall::begin() {
  error_ = nullptr;
  compared_ = false;
  call_ = group_.impl_->announce(call_.operation);
  if (!group_.on_one_machine()) {
    compare();
  }
}

bool GroupCall::agreed() {
  if (!compared_ && group_.impl_->all_announced()) {
    compare();
  }
  return compared_ && !error_;
}

void GroupCall::agree() {
  compare();
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void GroupCall::compare() {
  if (compared_) {
    return;
  }
  compared_ = true;
  try {
    group_.impl_->guarded(call_, [](const Call&) {});
  } catch (...) {
    error_ = std::current_exception();
  }
}

Pending GroupCall::all_reduce(
    const Tensor& tensor, Reduction reduction, bool overlap) {
  return group_.impl_->pending(
      group_.impl_->start_all_reduce(tensor, reduction, call_, overlap));
}

void GroupCall::broadcast(const Tensor& tensor, int from) {
  group_.impl_->guarded(call_, [&](const Call& call) {
    group_.impl_->finish(
        group_.impl_->start_broadcast(tensor, from, call, /*overlap=*/false));
  });
}

void GroupCall::scatter(const Tensor& output, const Tensor& input, int from) {
  group_.impl_->guarded(call_, [&](const Call& call) {
    group_.impl_->finish(group_.impl_->start_scatter(
        output, input, from, call, /*overlap=*/false));
  });
}

}  // namespace accelerate
