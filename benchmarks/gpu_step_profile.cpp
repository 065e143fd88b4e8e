// SPDX-License-Identifier: Apache-2.0
#include "gpu_step_profile.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/profiler_kineto.h>

namespace {

// Maps text in a kernel's name to the kind of the kernel. The first matching
// entry applies.
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
    {"reduce_partial_sums", "norms"},
    {"gemm", "matmuls"},
    {"nvjet", "matmuls"},
    {"cutlass", "matmuls"},
    {"splitK", "matmuls"},
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
    for (KernelTime* total :
         {&kinds[kind_of(event.name())], &names[event.name()]}) {
      total->ms += ms;
      total->count += 1.0 / steps;
    }
  }
  return kinds;
}

void print_profile(const std::function<void()>& step) {
  std::map<std::string, KernelTime> names;
  const auto kinds = profile_kernels(step, 3, names);
  KernelTime sum;
  for (const auto& [kind, time] : kinds) {
    std::printf(
        "    %-14s %8.3f ms %6.0f\n", kind.c_str(), time.ms, time.count);
    sum.ms += time.ms;
    sum.count += time.count;
  }
  std::printf("    %-14s %8.3f ms %6.0f\n", "all kernels", sum.ms, sum.count);
  std::vector<std::pair<double, std::string>> largest;
  for (const auto& [name, time] : names) {
    largest.emplace_back(time.ms, name);
  }
  std::sort(largest.rbegin(), largest.rend());
  for (std::size_t i = 0; i < std::min<std::size_t>(largest.size(), 26); ++i) {
    std::string text = largest[i].second;
    const auto prefix = text.find("(anonymous namespace)::");
    text = prefix == std::string::npos ? text : text.substr(prefix + 23);
    std::printf(
        "      %8.3f %5.0f  %s\n",
        largest[i].first,
        names[largest[i].second].count,
        text.substr(0, 80).c_str());
  }
}
