// SPDX-License-Identifier: Apache-2.0
#include "state/placement.h"

#include <iostream>

#include <c10/util/Exception.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

constexpr const char* kVariable = "ACCELERATE_TORCH_DEVICE";

std::optional<c10::Device> wanted_device(
    const Environment& environment, bool cpu) {
  const auto wanted = environment.get(kVariable);
  if (!wanted) {
    return std::nullopt;
  }
  std::optional<c10::Device> device;
  try {
    device.emplace(*wanted);
  } catch (const c10::Error&) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " is `",
            *wanted,
            "`, not a device"),
        "set it to `cpu`, `cuda` or `cuda:1`, or unset it");
  }
  if (device->is_cpu() && device->index() > 0) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " is `",
            *wanted,
            "`, but there is one CPU device, `cpu`"),
        "set it to `cpu`, or unset it");
  }
  if (cpu && !device->is_cpu()) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " is `",
            *wanted,
            "`, but the CPU was asked for"),
        "unset one of ACCELERATE_TORCH_DEVICE, ACCELERATE_USE_CPU and `cpu`");
  }
  if (!device->is_cpu() && !device->is_cuda()) {
    throw UnsupportedError(
        str_cat("this build has no support for device `", *wanted, "`"),
        "set ACCELERATE_TORCH_DEVICE to `cpu` or `cuda`, or unset it");
  }
  return device;
}

// Said once a host: training goes on, slower than its owner may think.
void warn_of_unused_gpu(const Topology& topology) {
  const std::string problem = device_problem();
  if (!problem.empty() && topology.local_process_index == 0) {
    std::cerr << str_cat("warning: training on the CPU: ", problem, "\n")
              << std::flush;
  }
}

void check_index(int index, const DeviceBackend& backend) {
  if (index >= backend.device_count()) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " names GPU ",
            index,
            ", this process sees ",
            backend.device_count()),
        "count them from 0; CUDA_VISIBLE_DEVICES decides which are seen");
  }
}

}  // namespace

int device_index(int index, int processes, int devices, bool shares) {
  if (devices == 0) {
    throw UnsupportedError(
        "a GPU was asked for, and this process sees none",
        "look at CUDA_VISIBLE_DEVICES and `nvidia-smi`, or train on the CPU "
        "with `--cpu`");
  }
  if (processes <= devices) {
    return index;
  }
  if (!shares) {
    throw UnsupportedError(
        str_cat(
            processes,
            " processes on this host want a GPU each, and it has ",
            devices),
        str_cat(
            "start ",
            devices,
            devices == 1 ? " process" : " processes",
            ", train on the CPU with `--cpu`, or set ACCELERATE_BACKEND=gloo "
            "to let processes share a GPU"));
  }
  return index % devices;
}

c10::Device place(
    const Environment& environment,
    const Topology& topology,
    const PlacementWishes& wishes) {
  const c10::Device cpu(c10::kCPU);
  const auto wanted = wanted_device(environment, wishes.cpu);
  if (wishes.cpu || (wanted && wanted->is_cpu())) {
    return cpu;
  }
  DeviceBackend* backend = wanted ? &cuda_backend() : find_device_backend();
  if (backend == nullptr) {
    warn_of_unused_gpu(topology);
    return cpu;
  }
  int index = 0;
  if (wanted && wanted->has_index()) {
    index = wanted->index();
    check_index(index, *backend);
  } else {
    // NCCL cannot have two ranks on one GPU; the others copy to the host.
    index = device_index(
        topology.local_process_index,
        topology.local_num_processes,
        backend->device_count(),
        wishes.backend && *wishes.backend != Backend::nccl);
  }
  backend->use_device(index);
  return {backend->type(), static_cast<c10::DeviceIndex>(index)};
}

}  // namespace accelerate
