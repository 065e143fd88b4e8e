// SPDX-License-Identifier: Apache-2.0
// The CPUs that this process may run on.
#pragma once

#include <cstdint>
#include <vector>

namespace accelerate {

/// Returns the logical CPUs in the affinity mask of this process.
std::vector<int> allowed_cpus();

/// Returns the number of physical cores that the logical CPUs in `cpus` belong
/// to. Two logical CPUs on the same core count as one.
std::int64_t count_cores(const std::vector<int>& cpus);

}  // namespace accelerate
