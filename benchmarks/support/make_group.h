// SPDX-License-Identifier: Apache-2.0
// Additional process groups, to compare backends.
#pragma once

#include <string>

#include "accelerate/group.h"

namespace accelerate::benchmarks {

/// Creates a process group that contains all processes of this run and uses
/// `backend`.
///
/// All processes must call this function. `name` must be unique.
Group make_group(const std::string& name, Backend backend);

}  // namespace accelerate::benchmarks
