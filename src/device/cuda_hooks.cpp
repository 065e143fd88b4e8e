// SPDX-License-Identifier: Apache-2.0
// Makes LibTorch's CUDA available to programs that do not link it.
//
// LibTorch looks up its CUDA hooks once per process, in the first call of
// `torch::manual_seed`, `torch::cuda::is_available` or a similar function, and
// caches the result. A program that sets a seed before it creates an
// Accelerator would then never find CUDA. Therefore, this file registers
// fallback hooks that load the CUDA libraries if there is a driver. While these
// libraries are loaded, LibTorch's own hooks replace the fallback hooks.
#include <ATen/detail/CUDAHooksInterface.h>

#include "accelerate/error.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

constexpr const char* kKey = "CUDAHooks";

std::unique_ptr<at::CUDAHooksInterface> load_hooks(at::CUDAHooksArgs args) {
  static thread_local bool loading = false;
  if (loading) {
    return nullptr;  // Still the fallback hooks: LibTorch has no CUDA.
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
