// SPDX-License-Identifier: Apache-2.0
#include "unit/xla/xla_device.h"

#include <cstdlib>

namespace accelerate::xla {

Tracer& test_device() {
  static Tracer& device = [&]() -> Tracer& {
    register_device();
    const char* devices = std::getenv("ACCELERATE_TEST_XLA_DEVICES");
    return open_device(
        {.plugin = XLA_CPU_PLUGIN,
         .device_count = devices != nullptr ? std::atoll(devices) : 1,
         .strict = true});
  }();
  return device;
}

}  // namespace accelerate::xla
