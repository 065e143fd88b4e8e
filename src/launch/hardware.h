// SPDX-License-Identifier: Apache-2.0
// What this machine has, found without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"

namespace accelerate {

struct Gpu {
  std::string name;
  std::int64_t memory_bytes = 0;
  std::string pci_address;  ///< "0000:1b:00.0"; empty where it is not known.
};

struct Hardware {
  std::vector<Gpu> gpus;  ///< Those CUDA_VISIBLE_DEVICES leaves.
  std::string driver_version;
  std::vector<int> cpus;   ///< The logical CPUs this process may run on.
  std::int64_t cores = 1;  ///< Whole cores among them, within the quota.
  std::int64_t memory_bytes = 0;
  std::string cpu_name;
  std::string host_name;
  std::string system;  ///< "Linux 6.1.0 x86_64, Debian GNU/Linux 12".
};

/// Asks the driver's own library (loaded at run time), /proc and /sys.
Hardware detect_hardware(const Environment& environment);

/// "2 × NVIDIA H200", "3 GPUs", "no GPU".
std::string describe_gpus(const std::vector<Gpu>& gpus);

/// "0-3,8" to {0, 1, 2, 3, 8}; anything else is left out.
std::vector<int> parse_cpu_list(std::string_view text);
std::string host_name();

}  // namespace accelerate
