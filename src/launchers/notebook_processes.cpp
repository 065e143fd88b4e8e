// SPDX-License-Identifier: Apache-2.0
#include "launchers/notebook_processes.h"

#include <algorithm>

#include "base/str_cat.h"

namespace accelerate {
namespace {

// `nvidia0`, `nvidia1`, …, but not `nvidiactl` or `nvidia-uvm`.
bool is_gpu(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.find_first_not_of("0123456789", kPrefix.size()) ==
             std::string::npos;
}

// A process needs a few cores, and more than eight processes only compete for
// memory bandwidth. The caller can request another number.
constexpr int kCpusPerProcess = 4;
constexpr int kMaxCpuProcesses = 8;

std::string too_few_gpus(int requested, int gpus) {
  return str_cat(
      "training on the CPU: ",
      requested,
      " processes were requested, but there ",
      gpus == 1 ? "is 1 GPU" : str_cat("are ", gpus, " GPUs"));
}

}  // namespace

int count_gpus(
    const Environment& environment, const std::filesystem::path& devices) {
  if (environment.get_flag("ACCELERATE_USE_CPU").value_or(false)) {
    return 0;
  }
  std::error_code ignored;
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(devices, ignored)) {
    count += is_gpu(entry.path().filename().string()) ? 1 : 0;
  }
  const auto visible = environment.variables().find("CUDA_VISIBLE_DEVICES");
  if (visible == environment.variables().end()) {
    return count;
  }
  // An empty list hides all GPUs.
  const std::string& list = visible->second;
  const auto listed = list.empty() || list.starts_with("-1")
                          ? 0
                          : 1 + std::count(list.begin(), list.end(), ',');
  return std::min(count, static_cast<int>(listed));
}

NotebookProcesses choose_processes(
    std::optional<int> requested, int gpus, int cpus) {
  if (requested && *requested > gpus) {
    return {*requested, true, gpus == 0 ? "" : too_few_gpus(*requested, gpus)};
  }
  if (requested) {
    return {*requested, false, ""};
  }
  if (gpus > 0) {
    return {
        gpus,
        false,
        gpus == 1
            ? "training on the GPU"
            : str_cat("training on ", gpus, " GPUs, one process per GPU")};
  }
  const int count = std::clamp(cpus / kCpusPerProcess, 1, kMaxCpuProcesses);
  return {
      count,
      true,
      str_cat(
          "training on the CPU with ",
          count,
          count == 1 ? " process (" : " processes (",
          cpus,
          " CPUs)")};
}

}  // namespace accelerate
