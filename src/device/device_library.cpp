// SPDX-License-Identifier: Apache-2.0
#include "device/device_library.h"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include <dlfcn.h>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "device/cuda_facts.h"
#include "device/fused_blocks.h"

namespace accelerate {
namespace {

// Never unloaded: CUDA's threads and exit handlers outlive every tensor.
void* open(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw UnsupportedError(
        str_cat(
            "CUDA cannot be loaded: ",
            reason != nullptr ? reason : "dlopen gave no reason"),
        "run `make build CUDA=1` to install the libraries that the CUDA build "
        "of LibTorch needs");
  }
  return handle;
}

[[noreturn]] void throw_other_version(
    const std::string& library,
    const std::string& library_version,
    const std::string& own_version) {
  throw UnsupportedError(
      str_cat(
          "`",
          library,
          "` ",
          library_version,
          ", but this libaccelerate ",
          own_version),
      "build both libraries from the same source tree with the same LibTorch");
}

// `abi` comes first: the layout of all other fields depends on it.
void check_versions(const DevicePlugin& table, const std::string& library) {
  if (table.abi != kDeviceAbi) {
    throw_other_version(
        library,
        str_cat("has device interface version ", table.abi),
        str_cat("has version ", kDeviceAbi));
  }
  if (table.blocks_version != kFusedBlocksVersion) {
    throw_other_version(
        library,
        str_cat("has fused block version ", table.blocks_version),
        str_cat("has version ", kFusedBlocksVersion));
  }
  if (std::string(table.torch_version) != TORCH_VERSION) {
    throw_other_version(
        library,
        str_cat("was built with LibTorch ", table.torch_version),
        str_cat("was built with ", TORCH_VERSION));
  }
}

const DevicePlugin& table_of(void* handle, const std::string& library) {
  const auto entry =
      reinterpret_cast<DevicePluginEntry>(dlsym(handle, kDeviceEntryName));
  const DevicePlugin* table = entry != nullptr ? entry() : nullptr;
  if (table == nullptr) {
    throw UnsupportedError(
        str_cat("`", library, "` is not an accelerate device library"),
        str_cat(
            "pass a library that exports the function `",
            kDeviceEntryName,
            "`"));
  }
  check_versions(*table, library);
  return *table;
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
  void* handle = nullptr;
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
      loaded.handle = open(loaded.facts.library);
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
      found.backend = &table_of(loaded.handle, loaded.facts.library).backend();
      cuda_blocks.store(
          found.backend->fused_blocks(), std::memory_order_release);
    } catch (const UnsupportedError& error) {
      found.problem = error;
    }
  });
  return found;
}

std::atomic<DeviceBackend*>& registered_for(c10::DeviceType type) {
  static std::
      array<std::atomic<DeviceBackend*>, c10::COMPILE_TIME_MAX_DEVICE_TYPES>
          all{};
  return all[static_cast<std::size_t>(type)];
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
  return table_of(open(library), library).backend();
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

}  // namespace accelerate
