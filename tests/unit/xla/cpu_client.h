// SPDX-License-Identifier: Apache-2.0
// PJRT clients of the CPU plugin. A process has one for each number of devices.
#pragma once

#include <map>

#include "xla/pjrt/client.h"

namespace accelerate::xla {

inline const Plugin& cpu_plugin() {
  static const Plugin plugin(XLA_CPU_PLUGIN);
  return plugin;
}

inline const Client& cpu_client(std::int64_t devices) {
  static std::map<std::int64_t, Client> clients;
  const auto found = clients.find(devices);
  if (found != clients.end()) {
    return found->second;
  }
  return clients
      .emplace(devices, Client(cpu_plugin(), {.device_count = devices}))
      .first->second;
}

}  // namespace accelerate::xla
