// SPDX-License-Identifier: Apache-2.0
#include "base/network_interfaces.h"

#include <net/if.h>

namespace accelerate {

std::vector<std::string> network_interfaces() {
  std::vector<std::string> names;
  struct if_nameindex* const all = ::if_nameindex();
  for (auto* entry = all; entry != nullptr && entry->if_name != nullptr;
       ++entry) {
    names.emplace_back(entry->if_name);
  }
  if (all != nullptr) {
    ::if_freenameindex(all);
  }
  return names;
}

}  // namespace accelerate
