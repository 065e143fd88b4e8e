// SPDX-License-Identifier: Apache-2.0
// The memory usage of this process.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace accelerate {

/// Returns the resident memory in KiB, including shared pages.
inline std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") {
      std::int64_t kib = 0;
      status >> kib;
      return kib;
    }
  }
  return 0;
}

}  // namespace accelerate
