// SPDX-License-Identifier: Apache-2.0
// What a kind of accelerator can do that LibTorch's device-independent calls
// cannot. The one place that code outside src/cuda asks.
//
//     if (DeviceBackend* gpu = find_device_backend()) {
//       gpu->use_device(state.local_process_index());
//     }
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"

namespace accelerate {

/// Which processes a group of devices joins.
struct DeviceGroupOptions {
  /// Where the members meet; held by the backend that is made.
  c10d::Store* store = nullptr;
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  c10::Device device = c10::Device(c10::kCUDA, 0);
  /// Stands in messages of the library below.
  std::string name = "world";
};

/// Memory of one device, in bytes.
struct DeviceMemory {
  std::int64_t free = 0;
  std::int64_t total = 0;
  /// Most that tensors of this process took at once.
  std::int64_t peak = 0;
};

/// Work that was recorded once and is started as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Records what `body` starts on the current device. Throws what `body`
  /// throws, and what cannot be recorded, with the recording ended.
  virtual void capture(const std::function<void()>& body) = 0;
  /// Starts it on the current stream.
  virtual void replay() = 0;
};

/// One kind of accelerator. Lives until the process ends.
///
/// Thread safety: any thread.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// Its name in messages: `CUDA`.
  virtual const char* name() const = 0;
  virtual c10::DeviceType type() const = 0;
  virtual int device_count() const = 0;
  /// `NVIDIA H200 (sm_90)`.
  virtual std::string describe(int index) const = 0;
  /// The same for the same device in every process, whatever number it has
  /// there, and for no other.
  virtual std::string identity(int index) const = 0;

  /// Makes the device the current one of this thread and starts it.
  ///
  /// Throws `UnsupportedError` that names it when this build has no code for
  /// it.
  virtual void use_device(int index) const = 0;
  /// Whether the device computes in `type` by itself.
  virtual bool computes_in(c10::ScalarType type, int index) const = 0;
  virtual DeviceMemory memory(int index) const = 0;

  /// Name of the collectives between devices: `nccl`.
  virtual const char* collectives() const = 0;
  /// A backend for tensors on the device; the caller owns one reference.
  ///
  /// Collective over the members, at its first operation at the latest.
  virtual c10d::Backend* create_group(
      const DeviceGroupOptions& options) const = 0;

  /// `pool` shares memory and the stream that is recorded with an earlier graph
  /// of the same device; null for none.
  virtual std::unique_ptr<DeviceGraph> make_graph(
      int index, const DeviceGraph* pool) const = 0;
  /// Whether what is started now is recorded, in place of being run.
  virtual bool is_recording() const = 0;
};

/// Changes whenever one of the classes above does.
inline constexpr std::uint32_t kDeviceAbi = 3;

/// What a library with a device backend hands out. The first two members are
/// compared before anything else is touched, as in comm/plugin.h.
struct DevicePlugin {
  std::uint32_t abi;
  const char* torch_version;
  /// The one backend; throws `UnsupportedError` when it cannot work here.
  DeviceBackend& (*backend)();
};

/// The one symbol of such a library: `extern "C"`, of this type.
using DevicePluginEntry = const DevicePlugin* (*)();
inline constexpr const char* kDeviceEntryName = "accelerate_device_plugin";

}  // namespace accelerate
