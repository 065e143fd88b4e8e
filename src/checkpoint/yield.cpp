// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/yield.h"

#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace accelerate {

void yield_to_training() {
  constexpr int kNicest = 19;
  constexpr int kLastInClass = 7;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNicest);
  ::syscall(
      SYS_ioprio_set,
      IOPRIO_WHO_PROCESS,
      0,
      IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, kLastInClass));
}

}  // namespace accelerate
