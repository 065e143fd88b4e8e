// SPDX-License-Identifier: Apache-2.0
// What a profiler does in each step.
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/profiler.h"

namespace accelerate {

enum class ProfileAction { none, warmup, record, record_and_save };

/// The action of step `step`; without a schedule everything is recorded.
ProfileAction action_of(
    const std::optional<ProfileSchedule>& schedule, std::int64_t step);

/// Throws `ArgumentError` for a number out of range.
void check_schedule(const ProfileSchedule& schedule);

}  // namespace accelerate
