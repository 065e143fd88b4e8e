// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save_clock.h"

#include <ratio>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {

SaveClock::SaveClock(const SaveEveryOptions& options) : options_(options) {
  if (!options.steps && !options.minutes) {
    throw ArgumentError(
        "save_every got neither `steps` nor `minutes`",
        "set at least one of them");
  }
  if ((options.steps && *options.steps < 1) ||
      (options.minutes && !(*options.minutes > 0))) {
    throw ArgumentError(
        str_cat(
            "save_every: ",
            options.steps && *options.steps < 1
                ? str_cat("`steps` is ", *options.steps)
                : str_cat("`minutes` is ", *options.minutes)),
        "pass a number above 0");
  }
}

bool SaveClock::is_due(const Group& group) {
  ++steps_;
  if (options_.steps && steps_ % *options_.steps == 0) {
    return true;
  }
  if (!options_.minutes) {
    return false;
  }
  const std::chrono::duration<double, std::ratio<60>> passed =
      std::chrono::steady_clock::now() - last_;
  std::vector<Json> due{Json(passed.count() >= *options_.minutes)};
  group.broadcast_object_list(due);
  return due.front().as_bool();
}

}  // namespace accelerate
