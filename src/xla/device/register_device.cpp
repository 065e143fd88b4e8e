// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <mutex>

#include <torch/csrc/autograd/engine.h>

#include "accelerate/error.h"
#include "xla/device/operators.h"
#include "xla/device/registration.h"

namespace accelerate::xla {
namespace {

using c10::DispatchKey;

// Never destroyed: a registration ends with its library object.
torch::Library& new_library(const char* name, DispatchKey key) {
  static auto& libraries = *new std::deque<torch::Library>();
  return libraries.emplace_back(
      torch::Library::IMPL, name, key, __FILE__, __LINE__);
}

// LibTorch warns that our kernels replace its compositions, which is intended.
class IgnoreWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

void register_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    IgnoreWarnings ignore;
    const c10::WarningUtils::WarningHandlerGuard guard(&ignore);
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

void check_registered_in_time() {
  // LibTorch's engine creates its threads once, one per device.
  struct Queues : torch::autograd::Engine {
    static bool have_xla(Engine& engine) {
      return !(engine.*&Queues::device_ready_queues_).empty();
    }
  };
  torch::autograd::Engine& engine =
      torch::autograd::Engine::get_default_engine();
  engine.initialize_device_threads_pool();
  if (!Queues::have_xla(engine)) {
    throw StateError(
        "XLA was chosen after the first `backward` of this process; LibTorch "
        "had already created its autograd threads, without a thread for "
        "`xla:0`",
        "create the `Accelerator` before the first `backward`, or set "
        "PJRT_DEVICE before the program starts");
  }
}

}  // namespace accelerate::xla
