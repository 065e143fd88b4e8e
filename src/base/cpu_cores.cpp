// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_cores.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <sched.h>

#include "base/str_cat.h"

namespace accelerate {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
    return {0};
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

std::int64_t count_cores(const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    std::ifstream file(str_cat(
        "/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    std::string siblings;
    std::getline(file, siblings);
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(cores.size()));
}

}  // namespace accelerate
