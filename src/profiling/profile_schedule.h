// SPDX-License-Identifier: Apache-2.0
// Determines what a profiler does in each step.
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/profiler.h"

namespace accelerate {

enum class ProfileAction { none, warmup, record, record_and_save };

/// Returns the action for `step`; without a schedule, always `record`.
ProfileAction action_of(
    const std::optional<ProfileSchedule>& schedule, std::int64_t step);

/// Throws `ArgumentError` if a value of the schedule is out of range.
void check_schedule(const ProfileSchedule& schedule);

}  // namespace accelerate
