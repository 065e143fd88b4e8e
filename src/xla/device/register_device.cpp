// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "xla/device/operators.h"
#include "xla/device/registration.h"

namespace accelerate::xla {
namespace {

using c10::DispatchKey;

// Never destroyed: a registration ends with its library object.
torch::Library& new_library(const char* name, DispatchKey key) {
  return *new torch::Library(
      torch::Library::IMPL, name, key, __FILE__, __LINE__);
}

}  // namespace

void register_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_hooks();
    torch::Library& aten = new_library("aten", DispatchKey::XLA);
    register_tensor_kernels(aten);
    register_fused_optimizers(aten);
    register_lowerings(aten, new_library("_", DispatchKey::XLA));
    register_autocast(
        new_library("aten", DispatchKey::AutocastXLA),
        new_library("_", DispatchKey::AutocastXLA));
  });
}

}  // namespace accelerate::xla
