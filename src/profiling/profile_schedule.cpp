// SPDX-License-Identifier: Apache-2.0
#include "profiling/profile_schedule.h"

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

void check_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw ArgumentError(
        str_cat("`ProfileSchedule::", name, "` is ", value),
        str_cat("pass ", least, " or more"));
  }
}

}  // namespace

ProfileAction action_of(
    const std::optional<ProfileSchedule>& schedule, std::int64_t step) {
  if (!schedule) {
    return ProfileAction::record;
  }
  if (step < schedule->skip_first) {
    return ProfileAction::none;
  }
  const std::int64_t since = step - schedule->skip_first;
  const std::int64_t cycle =
      schedule->wait + schedule->warmup + schedule->active;
  if (schedule->repeat > 0 && since / cycle >= schedule->repeat) {
    return ProfileAction::none;
  }
  const std::int64_t position = since % cycle;
  if (position < schedule->wait) {
    return ProfileAction::none;
  }
  if (position < schedule->wait + schedule->warmup) {
    return ProfileAction::warmup;
  }
  return position + 1 < cycle ? ProfileAction::record
                              : ProfileAction::record_and_save;
}

void check_schedule(const ProfileSchedule& schedule) {
  check_at_least("wait", schedule.wait, 0);
  check_at_least("warmup", schedule.warmup, 0);
  check_at_least("active", schedule.active, 1);
  check_at_least("repeat", schedule.repeat, 0);
  check_at_least("skip_first", schedule.skip_first, 0);
}

}  // namespace accelerate
