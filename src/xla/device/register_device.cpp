// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "xla/device/operators.h"
#include "xla/device/registration.h"

namespace accelerate::xla {

void register_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_hooks();
    // Never destroyed: a registration ends with its library object.
    static auto& aten = *new torch::Library(
        torch::Library::IMPL, "aten", c10::DispatchKey::XLA, __FILE__,
        __LINE__);
    static auto& others = *new torch::Library(
        torch::Library::IMPL, "_", c10::DispatchKey::XLA, __FILE__, __LINE__);
    register_tensor_kernels(aten);
    register_lowerings(aten, others);
  });
}

}  // namespace accelerate::xla
