// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/yield.h"

#include <sys/resource.h>
#include <unistd.h>

namespace accelerate {

void yield_to_training() {
  // The disk priority follows: Linux derives it from the nice value.
  constexpr int kNicest = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNicest);
}

}  // namespace accelerate
