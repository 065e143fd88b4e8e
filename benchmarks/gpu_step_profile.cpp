// SPDX-License-Identifier: Apache-2.0
#include "gpu_step_profile.h"

#include <utility>
#include <vector>

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/profiler_kineto.h>

namespace {

// The first that a kernel's name contains decides.
const std::vector<std::pair<const char*, const char*>> kKinds = {
    {"adamw", "adamw"},
    {"cross_entropy", "loss"},
    {"count_labels", "loss"},
    {"sdpa", "attention"},
    {"short_attention", "attention"},
    {"flash", "attention"},
    {"fmha", "attention"},
    {"mha", "attention"},
    {"cudnn_generated", "attention"},
    {"pack_kernel", "attention"},
    {"rotate_kernel", "attention"},
    {"norm_", "norms"},
    {"reduce_parts", "norms"},
    {"gemm", "products"},
    {"nvjet", "products"},
    {"cutlass", "products"},
    {"splitK", "products"},
    {"runs_kernel", "embedding"},
    {"crossing_kernel", "embedding"},
    {"keys_kernel", "embedding"},
    {"Radix", "embedding"},
    {"indexSelect", "embedding"},
    {"vectorized_gather", "embedding"},
    {"Memset", "copies"},
    {"Memcpy", "copies"},
};

const char* kind_of(const std::string& name) {
  for (const auto& [part, kind] : kKinds) {
    if (name.find(part) != std::string::npos) {
      return kind;
    }
  }
  return "element-wise";
}

}  // namespace

std::map<std::string, KernelTime> profile_kernels(
    const std::function<void()>& step,
    int steps,
    std::map<std::string, KernelTime>& names) {
  namespace profiler = torch::autograd::profiler;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  const std::set<profiler::ActivityType> activities = {
      profiler::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  for (int i = 0; i < steps; ++i) {
    step();
  }
  c10::cuda::device_synchronize();
  const auto result = profiler::disableProfiler();
  std::map<std::string, KernelTime> kinds;
  for (const auto& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) {
      continue;
    }
    const double ms = static_cast<double>(event.durationNs()) / 1e6 / steps;
    for (KernelTime* one :
         {&kinds[kind_of(event.name())], &names[event.name()]}) {
      one->ms += ms;
      one->count += 1.0 / steps;
    }
  }
  return kinds;
}
