// SPDX-License-Identifier: Apache-2.0
#include "device/device_library.h"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "base/plugin.h"
#include "device/cuda_facts.h"
#include "device/fused_blocks.h"

namespace accelerate {
namespace {

Plugin open(const std::string& library) {
  return {
      library,
      {.feature = "CUDA",
       .entry = kDeviceEntryName,
       .hint = "run `make build CUDA=1` to install the libraries that the CUDA "
               "build of LibTorch needs"}};
}

// `abi` comes first: the layout of all other fields depends on it.
DeviceBackend& backend_of(const Plugin& plugin) {
  const auto& table = plugin.table<DevicePlugin>();
  plugin.check_versions(
      {{"device interface",
        std::to_string(table.abi),
        std::to_string(kDeviceAbi)}});
  plugin.check_versions(
      {{"fused blocks",
        std::to_string(table.blocks_version),
        std::to_string(kFusedBlocksVersion)},
       {"LibTorch", table.torch_version, TORCH_VERSION}});
  return table.backend();
}

[[noreturn]] void rethrow(const UnsupportedError& error) {
  throw UnsupportedError(error.what(), error.hint(), error.where());
}

// The result of the first attempt is kept for the whole process. Loading is a
// separate step because the backend's constructor may make LibTorch look up its
// CUDA hooks, and these hooks load the libraries (cuda_hooks.cpp).
struct Loaded {
  std::once_flag once;
  CudaFacts facts;
  std::optional<Plugin> plugin;
  std::optional<UnsupportedError> problem;
};

Loaded& load_once() {
  static Loaded loaded;
  std::call_once(loaded.once, [] {
    loaded.facts = collect_cuda_facts();
    loaded.problem = cuda_problem(loaded.facts);
    if (loaded.problem) {
      return;
    }
    try {
      loaded.plugin = open(loaded.facts.library);
    } catch (const UnsupportedError& error) {
      loaded.problem = error;
    }
  });
  return loaded;
}

struct Found {
  std::once_flag once;
  DeviceBackend* backend = nullptr;
  std::optional<UnsupportedError> problem;
};

// Set once the CUDA backend exists.
std::atomic<const FusedBlocks*> cuda_blocks{nullptr};

Found& find_once() {
  static Found found;
  std::call_once(found.once, [] {
    const Loaded& loaded = load_once();
    found.problem = loaded.problem;
    if (found.problem) {
      return;
    }
    try {
      found.backend = &backend_of(*loaded.plugin);
      cuda_blocks.store(
          found.backend->fused_blocks(), std::memory_order_release);
    } catch (const UnsupportedError& error) {
      found.problem = error;
    }
  });
  return found;
}

using Backends =
    std::array<std::atomic<DeviceBackend*>, c10::COMPILE_TIME_MAX_DEVICE_TYPES>;

Backends& known_backends() {
  static Backends all{};
  return all;
}

std::atomic<DeviceBackend*>& registered_for(c10::DeviceType type) {
  return known_backends()[static_cast<std::size_t>(type)];
}

}  // namespace

const std::string& load_cuda_libraries() {
  const Loaded& loaded = load_once();
  if (loaded.problem) {
    rethrow(*loaded.problem);
  }
  return loaded.facts.library;
}

DeviceBackend& open_device_library(const std::string& library) {
  return backend_of(open(library));
}

DeviceBackend& cuda_backend() {
  const Found& found = find_once();
  if (found.problem) {
    rethrow(*found.problem);
  }
  return *found.backend;
}

DeviceBackend* find_device_backend() {
  const Found& found = find_once();
  return found.backend != nullptr && found.backend->device_count() > 0
             ? found.backend
             : nullptr;
}

std::string device_problem() {
  const Found& found = find_once();
  return load_once().facts.driver_version && found.problem
             ? found.problem->what()
             : "";
}

void register_device_backend(c10::DeviceType type, DeviceBackend* backend) {
  registered_for(type).store(backend, std::memory_order_release);
}

const FusedBlocks* fused_blocks_of(c10::DeviceType type) {
  if (const auto* backend =
          registered_for(type).load(std::memory_order_acquire)) {
    return backend->fused_blocks();
  }
  return type == c10::kCUDA ? cuda_blocks.load(std::memory_order_acquire)
                            : nullptr;
}

DeviceBackend* device_backend_of(c10::Device device) {
  if (auto* backend =
          registered_for(device.type()).load(std::memory_order_acquire)) {
    return backend;
  }
  return device.is_cuda() ? &cuda_backend() : nullptr;
}

LazyDevice* lazy_device_of(c10::Device device) {
  DeviceBackend* const backend = device_backend_of(device);
  return backend != nullptr ? backend->lazy_device() : nullptr;
}

bool uses_pinned_memory(c10::Device device) {
  if (device.is_cpu()) {
    return false;
  }
  const DeviceBackend* const backend = device_backend_of(device);
  return backend == nullptr || backend->uses_pinned_memory();
}

void seed_other_devices(std::uint64_t seed) {
  for (const std::atomic<DeviceBackend*>& backend : known_backends()) {
    if (DeviceBackend* const known = backend.load(std::memory_order_acquire)) {
      known->set_seed(seed);
    }
  }
}

}  // namespace accelerate
