// SPDX-License-Identifier: Apache-2.0
// Lets LibTorch find its CUDA although no program links it.
//
// LibTorch asks once in the life of a process whether it has CUDA, at the
// first `torch::manual_seed`, `torch::cuda::is_available` or the like, and
// keeps the answer. A program that seeds before it makes an Accelerator would
// be without CUDA for good. So we register an answer of the lowest priority
// that loads CUDA where there is a driver; LibTorch's own replaces it while
// that happens.
#include <ATen/detail/CUDAHooksInterface.h>

#include "accelerate/error.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

constexpr const char* kKey = "CUDAHooks";

std::unique_ptr<at::CUDAHooksInterface> load_hooks(at::CUDAHooksArgs args) {
  static thread_local bool loading = false;
  if (loading) {
    return nullptr;  // Loading did not replace us: LibTorch has no CUDA.
  }
  loading = true;
  try {
    load_cuda_libraries();
  } catch (const UnsupportedError&) {
    return nullptr;  // `device_problem` tells those who want to know.
  }
  return at::CUDAHooksRegistry()->Create(kKey, args);
}

// Where a program links LibTorch's CUDA itself, its own answer is there.
[[maybe_unused]] const bool registered = [] {
  if (!at::CUDAHooksRegistry()->Has(kKey)) {
    at::CUDAHooksRegistry()->Register(
        kKey, &load_hooks, c10::REGISTRY_FALLBACK);
  }
  return true;
}();

}  // namespace
}  // namespace accelerate
