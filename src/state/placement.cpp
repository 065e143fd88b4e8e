// SPDX-License-Identifier: Apache-2.0
#include "state/placement.h"

#include <climits>

#include <c10/util/Exception.h>

#include "accelerate/error.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "device/device_library.h"
#include "device/xla_backend.h"

namespace accelerate {
namespace {

constexpr const char* kVariable = "ACCELERATE_TORCH_DEVICE";
constexpr const char* kRanksPerGpu = "ACCELERATE_RANKS_PER_GPU";

/// A device that the user requested.
struct Request {
  c10::Device device;
  std::string source;  ///< What requested it, for messages.
  std::string setter;  ///< How to request another device.
  std::string remover;

  std::string hint(const std::string& devices) const {
    return str_cat(setter, " to ", devices, ", or ", remover);
  }
};

c10::Device parse_device(const std::string& text) {
  try {
    return c10::Device(text);
  } catch (const c10::Error&) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kVariable,
            " is `",
            text,
            "`, not a device"),
        "set it to `cpu`, `cuda`, `cuda:N` or `xla`, or unset it");
  }
}

std::optional<Request> find_request(
    const Environment& environment, const PlacementOptions& options) {
  if (options.device) {
    return Request{
        *options.device,
        str_cat("the option `device` is `", options.device->str(), "`"),
        "set the option `device`",
        "omit it"};
  }
  if (const auto text = environment.get(kVariable)) {
    return Request{
        parse_device(*text),
        str_cat("environment variable ", kVariable, " is `", *text, "`"),
        "set ACCELERATE_TORCH_DEVICE",
        "unset it"};
  }
  // PJRT_DEVICE describes the machine, so a program may still use the CPU.
  if (chooses_xla(environment) && !options.cpu) {
    return Request{c10::Device(c10::kXLA, 0), "PJRT_DEVICE is set", "", ""};
  }
  return std::nullopt;
}

void check_request(const Request& request, bool cpu) {
  const c10::Device device = request.device;
  if ((device.is_cpu() || device.is_xla()) && device.index() > 0) {
    const std::string name = device.is_cpu() ? "cpu" : "xla";
    throw ConfigError(
        str_cat(
            request.source,
            ", but the only ",
            device.is_cpu() ? "CPU" : "XLA",
            " device is `",
            name,
            "`"),
        request.hint(str_cat("`", name, "`")));
  }
  if (cpu && !device.is_cpu()) {
    throw ConfigError(
        str_cat(request.source, ", but the CPU was requested"),
        str_cat(
            request.remover,
            ", or remove what requests the CPU: `--cpu`, ACCELERATE_USE_CPU or "
            "the option `cpu`"));
  }
  if (!device.is_cpu() && !device.is_cuda() && !device.is_xla()) {
    throw UnsupportedError(
        str_cat("this build has no support for device `", device.str(), "`"),
        request.hint("`cpu`, `cuda` or `xla`"));
  }
}

// One process drives all XLA devices of its machine.
void check_one_process(const Topology& topology) {
  if (topology.num_processes > 1) {
    throw UnsupportedError(
        str_cat(
            "XLA was chosen in a run of ",
            topology.num_processes,
            " processes, but one process uses all XLA devices of a machine, "
            "and runs on several machines are not supported yet"),
        "start one process with `--num_processes 1`");
  }
}

// Warns once per machine: training on the CPU works, but may be unexpectedly
// slow.
void warn_of_unused_gpu(const Topology& topology) {
  const std::string problem = device_problem();
  if (!problem.empty() && topology.local_process_index == 0) {
    print_warning(str_cat("training on the CPU: ", problem));
  }
}

void check_index(const Request& request, const DeviceBackend& backend) {
  if (request.device.index() >= backend.device_count()) {
    throw ConfigError(
        str_cat(
            request.source,
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
            : str_cat(
                  " need ",
                  (processes + processes_per_device - 1) / processes_per_device,
                  " GPUs (at most ",
                  processes_per_device,
                  " processes per GPU)");
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
  const auto requested = find_request(environment, options);
  if (requested) {
    check_request(*requested, options.cpu);
  }
  if (options.cpu || (requested && requested->device.is_cpu())) {
    return cpu;
  }
  if (requested && requested->device.is_xla()) {
    check_one_process(topology);
    return {open_xla_backend(environment).type(), 0};
  }
  DeviceBackend* backend = requested ? &cuda_backend() : find_device_backend();
  if (backend == nullptr) {
    warn_of_unused_gpu(topology);
    return cpu;
  }
  int index = 0;
  if (requested && requested->device.has_index()) {
    index = requested->device.index();
    check_index(*requested, *backend);
  } else {
    // NCCL supports two ranks on one GPU only if it treats them as ranks on
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
