// SPDX-License-Identifier: Apache-2.0
#include "unit/xla/xla_device.h"

#include <cstdlib>

#include "xla/device/tensors.h"

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

at::Tensor to_xla_divided(const at::Tensor& tensor) {
  Tracer& device = test_device();
  const auto lock = device.lock();
  const bool divides =
      tensor.size(0) % device.runner().client().device_count() == 0;
  return make_tensor(upload(tensor, divides ? Sharding{0} : Sharding{}));
}

}  // namespace accelerate::xla
