// SPDX-License-Identifier: Apache-2.0
#include "parallel/agreement.h"

namespace accelerate {

void Agreement::propose() {
  error_ = nullptr;
  settled_ = false;
  group_.announce("backward");
  if (!group_.on_one_machine()) {
    compare();
  }
}

bool Agreement::reached() {
  if (!settled_ && group_.all_announced()) {
    compare();
  }
  return settled_ && !error_;
}

void Agreement::settle() {
  compare();
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void Agreement::compare() {
  if (settled_) {
    return;
  }
  settled_ = true;
  try {
    group_.settle();
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace accelerate
