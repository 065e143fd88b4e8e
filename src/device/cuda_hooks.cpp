// SPDX-License-Identifier: Apache-2.0
// Makes LibTorch's CUDA available to programs that do not link it.
//
// LibTorch looks up its CUDA hooks once per process, at the first
// `torch::manual_seed`, `torch::cuda::is_available` or the like, and caches the
// result. A program that seeds before it creates an Accelerator would never get
// CUDA. We therefore register fallback hooks that load the CUDA libraries where
// there is a driver; LibTorch's own hooks replace them during the load.
#include <ATen/detail/CUDAHooksInterface.h>

#include "accelerate/error.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

constexpr const char* kKey = "CUDAHooks";

std::unique_ptr<at::CUDAHooksInterface> load_hooks(at::CUDAHooksArgs args) {
  static thread_local bool loading = false;
  if (loading) {
    return nullptr;  // The load did not replace us: LibTorch has no CUDA.
  }
  loading = true;
  try {
    load_cuda_libraries();
  } catch (const UnsupportedError&) {
    return nullptr;  // `device_problem` returns the reason.
  }
  return at::CUDAHooksRegistry()->Create(kKey, args);
}

// A program that links LibTorch's CUDA has LibTorch's hooks already.
[[maybe_unused]] const bool registered = [] {
  if (!at::CUDAHooksRegistry()->Has(kKey)) {
    at::CUDAHooksRegistry()->Register(
        kKey, &load_hooks, c10::REGISTRY_FALLBACK);
  }
  return true;
}();

}  // namespace
}  // namespace accelerate
