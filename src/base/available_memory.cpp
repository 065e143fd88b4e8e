// SPDX-License-Identifier: Apache-2.0
#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace accelerate {
namespace {

// Returns the number at the start of a file; empty if the file contains "max"
// instead of a number.
std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

std::uint64_t available_bytes() {
  std::uint64_t available = UINT64_MAX;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (fields >> name >> kibibytes && name == "MemAvailable:") {
      available = kibibytes * 1024;
    }
  }
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    available = std::min(available, *limit - std::min(*limit, *used));
  }
  return available;
}

}  // namespace accelerate
