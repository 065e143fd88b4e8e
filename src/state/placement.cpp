// SPDX-License-Identifier: Apache-2.0
#include "state/placement.h"

#include <climits>

#include <c10/util/Exception.h>

#include "accelerate/error.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

constexpr const char* kVariable = "ACCELERATE_TORCH_DEVICE";
constexpr const char* kRanksPerGpu = "ACCELERATE_RANKS_PER_GPU";

std::optional<c10::Device> requested_device(
    const Environment& environment, bool cpu) {
  const auto text = environment.get(kVariable);
  if (!text) {
    return std::nullopt;
  }
  std::optional<c10::Device> device;
  try {
    device.emplace(*text);
  } catch (const c10::Error&) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " is `",
            *text,
            "`, not a device"),
        "set it to `cpu`, `cuda` or `cuda:N`, or unset it");
  }
  if (device->is_cpu() && device->index() > 0) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " is `",
            *text,
            "`, but the only CPU device is `cpu`"),
        "set it to `cpu`, or unset it");
  }
  if (cpu && !device->is_cpu()) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " is `",
            *text,
            "`, but the CPU was requested"),
        "unset ACCELERATE_TORCH_DEVICE, or remove what requests the CPU: "
        "`--cpu`, ACCELERATE_USE_CPU or the option `cpu`");
  }
  if (!device->is_cpu() && !device->is_cuda()) {
    throw UnsupportedError(
        str_cat("this build has no support for device `", *text, "`"),
        "set ACCELERATE_TORCH_DEVICE to `cpu` or `cuda`, or unset it");
  }
  return device;
}

// Warns once per machine: training on the CPU works, but may be unexpectedly
// slow.
void warn_of_unused_gpu(const Topology& topology) {
  const std::string problem = device_problem();
  if (!problem.empty() && topology.local_process_index == 0) {
    print_warning(str_cat("training on the CPU: ", problem));
  }
}

void check_index(int index, const DeviceBackend& backend) {
  if (index >= backend.device_count()) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " selects GPU ",
            index,
            ", but the number of GPUs visible to this process is ",
            backend.device_count()),
        "count GPUs from 0, and check CUDA_VISIBLE_DEVICES");
  }
}

}  // namespace

int device_index(
    int index, int processes, int devices, std::int64_t processes_per_device) {
  if (devices == 0) {
    throw UnsupportedError(
        "a GPU was requested, but none is visible to this process",
        "check CUDA_VISIBLE_DEVICES and `nvidia-smi`, or train on the CPU with "
        "`--cpu`");
  }
  const auto room = static_cast<std::int64_t>(devices) * processes_per_device;
  if (processes > room) {
    const std::string needed =
        processes_per_device == 1
            ? std::string(" need one GPU each")
            : str_cat(" need one GPU for every ", processes_per_device);
    throw UnsupportedError(
        str_cat(
            processes,
            " processes on this machine",
            needed,
            ", but the machine has ",
            devices,
            devices == 1 ? " GPU" : " GPUs"),
        str_cat(
            "start ",
            room,
            room == 1 ? " process" : " processes",
            ", train on the CPU with `--cpu`, or set ACCELERATE_BACKEND=gloo "
            "to let processes share a GPU"));
  }
  return index % devices;
}

c10::Device select_device(
    const Environment& environment,
    const Topology& topology,
    const PlacementOptions& options) {
  const c10::Device cpu(c10::kCPU);
  const auto requested = requested_device(environment, options.cpu);
  if (options.cpu || (requested && requested->is_cpu())) {
    return cpu;
  }
  DeviceBackend* backend = requested ? &cuda_backend() : find_device_backend();
  if (backend == nullptr) {
    warn_of_unused_gpu(topology);
    return cpu;
  }
  int index = 0;
  if (requested && requested->has_index()) {
    index = requested->index();
    check_index(index, *backend);
  } else {
    // NCCL supports two ranks on one GPU only if it takes them for ranks on
    // different machines; the other backends copy through host memory.
    const bool uses_nccl =
        !options.backend || *options.backend == Backend::nccl;
    index = device_index(
        topology.local_process_index,
        topology.local_num_processes,
        backend->device_count(),
        uses_nccl ? environment.get_integer(kRanksPerGpu, 1).value_or(1)
                  : INT_MAX);
  }
  backend->use_device(index);
  return {backend->type(), static_cast<c10::DeviceIndex>(index)};
}

}  // namespace accelerate
