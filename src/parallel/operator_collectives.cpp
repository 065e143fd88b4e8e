// SPDX-License-Identifier: Apache-2.0
#include "parallel/operator_collectives.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr const char* kEndOfBackward = "end of backward";
constexpr const char* kEndAfterError = "end of backward after an error";

}  // namespace

OperatorCollectives::OperatorCollectives(Group group)
    : group_(std::move(group)) {
}

// After an error, no rank is still in the backward pass, because every rank
// received the error.
GroupCall OperatorCollectives::agree(const std::string& name) {
  try {
    if (reduction_) {
      reduction_->agree();
    }
    GroupCall call(group_, name.c_str());
    call.begin();
    call.agree();
    return call;
  } catch (const MismatchError& error) {
    const bool was_in_backward = std::exchange(in_backward_, false);
    if (was_in_backward && name != kEndAfterError &&
        std::string(error.what()).find(kEndAfterError) != std::string::npos) {
      throw RankError(
          str_cat(
              "backward failed on another rank; rank ",
              group_.rank(),
              " was at the ",
              name,
              " and dropped the gradients of this step"),
          "the root cause is in the log of the rank that failed; the process "
          "group stays usable");
    }
    throw;
  }
}

void OperatorCollectives::all_reduce(
    const std::string& name, const at::Tensor& tensor) {
  agree(name).all_reduce(tensor, Reduction::sum, /*overlap=*/false).wait();
}

void OperatorCollectives::begin_backward(std::shared_ptr<GroupCall> reduction) {
  reduction_ = std::move(reduction);
  in_backward_ = true;
}

void OperatorCollectives::end_backward() {
  if (in_backward_) {
    static_cast<void>(agree(kEndOfBackward));
    in_backward_ = false;
  }
  reduction_ = nullptr;
}

void OperatorCollectives::fail_backward() noexcept {
  try {
    if (in_backward_) {
      static_cast<void>(agree(kEndAfterError));
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // The caller rethrows the original exception.
  }
  in_backward_ = false;
  reduction_ = nullptr;
}

}  // namespace accelerate
