// SPDX-License-Identifier: Apache-2.0
// The processors this process may run on.
#pragma once

#include <cstdint>
#include <vector>

namespace accelerate {

/// The logical CPUs that the affinity of this process leaves it.
std::vector<int> allowed_cpus();

/// How many physical cores they belong to: two threads of one core count once.
std::int64_t count_cores(const std::vector<int>& cpus);

}  // namespace accelerate
