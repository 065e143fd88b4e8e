// SPDX-License-Identifier: Apache-2.0
// Detects this machine's hardware without LibTorch.
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
  std::string pci_address;  ///< "0000:1b:00.0"; empty when unknown.
};

struct Hardware {
  std::vector<Gpu> gpus;  ///< The GPUs that CUDA_VISIBLE_DEVICES exposes.
  std::string driver_version;
  std::vector<int> cpus;  ///< The logical CPUs this process may run on.
  /// The number of physical cores of `cpus`, limited by the CPU quota.
  std::int64_t cores = 1;
  std::int64_t memory_bytes = 0;
  std::string cpu_name;
  std::string hostname;
  std::string system;  ///< "Linux 6.1.0 x86_64, Debian GNU/Linux 12".
};

/// Detects the hardware with NVML (loaded at run time), /proc and /sys.
Hardware detect_hardware(const Environment& environment);

/// Describes the GPUs: "2 × NVIDIA H200", "3 GPUs" or "no GPU".
std::string describe_gpus(const std::vector<Gpu>& gpus);

/// Parses "0-3,8" into {0, 1, 2, 3, 8}; skips malformed parts.
std::vector<int> parse_cpu_list(std::string_view text);
std::string hostname();

}  // namespace accelerate
