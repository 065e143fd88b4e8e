// SPDX-License-Identifier: Apache-2.0
// The accelerator operations that LibTorch's device-independent API lacks. Code
// outside src/cuda accesses these operations only through this interface.
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

class LazyDevice;
struct FusedBlocks;

/// Options for a process group whose collectives run on devices.
struct DeviceGroupOptions {
  /// The store that the ranks use for the rendezvous. The new process group
  /// keeps a reference to the store.
  c10d::Store* store = nullptr;
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  c10::Device device = c10::Device(c10::kCUDA, 0);
  /// The name of the process group in messages from the collective library.
  std::string name = "world";
};

/// The memory of one device, in bytes.
struct DeviceMemory {
  std::int64_t free = 0;
  std::int64_t total = 0;
  /// The most memory that tensors in this process have used at one time.
  std::int64_t peak = 0;
};

/// A graph of device work (a CUDA graph). It is captured once; each replay
/// launches all of its work.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Captures the work that `body` launches on the current device. Rethrows any
  /// exception from `body`, and throws if an operation cannot be captured. The
  /// capture has ended when this function throws.
  virtual void capture(const std::function<void()>& body) = 0;
  /// Launches the graph on the current stream.
  virtual void replay() = 0;
};

/// One kind of accelerator. The object exists until the process ends.
///
/// Thread safety: all functions may be called from any thread.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// Returns the backend's name in messages, for example `CUDA`.
  virtual const char* name() const = 0;
  virtual c10::DeviceType type() const = 0;
  virtual int device_count() const = 0;
  /// Returns the device's name in messages, for example `NVIDIA H200 (sm_90)`.
  virtual std::string describe(int index) const = 0;
  /// Returns a unique identifier of the physical device. The identifier is the
  /// same in every process, even if the device has a different index in another
  /// process.
  virtual std::string identity(int index) const = 0;

  /// Initializes the device and makes it the current device of this thread.
  ///
  /// Throws an `UnsupportedError` that names the device if the kernels in this
  /// build cannot run on the device.
  virtual void use_device(int index) const = 0;
  /// Returns whether the device supports matmuls in `type` natively.
  virtual bool computes_in(c10::ScalarType type, int index) const = 0;
  virtual DeviceMemory memory(int index) const = 0;

  /// Returns the name of the collective library, for example `nccl`.
  virtual const char* collectives() const = 0;
  /// Creates a c10d backend for tensors on the device. The caller must release
  /// the returned reference.
  ///
  /// Every rank in the process group must call this function. The c10d backend
  /// connects to the other ranks either during this call or at its first
  /// operation.
  virtual c10d::Backend* create_group(
      const DeviceGroupOptions& options) const = 0;

  /// Creates an empty graph. If `pool` is not null, it must be an earlier graph
  /// on the same device, and the new graph uses the memory pool and the capture
  /// stream of `pool`. If `pool` is null, the new graph gets its own pool and
  /// stream.
  virtual std::unique_ptr<DeviceGraph> make_graph(
      int index, const DeviceGraph* pool) const = 0;
  /// Returns whether the current stream is capturing a graph.
  virtual bool is_capturing() const = 0;

  /// Returns the fused operations for tensors on the device (fused_blocks.h),
  /// or null if there are none.
  virtual const FusedBlocks* fused_blocks() const { return nullptr; }

  /// Returns the interface of a device that records operators (lazy_device.h),
  /// or null if the device runs each operator when it is called.
  virtual LazyDevice* lazy_device() { return nullptr; }
  /// Returns whether copies between the device and pinned CPU memory run in the
  /// background.
  virtual bool uses_pinned_memory() const { return true; }
  /// Seeds the device's random number generators. Does nothing if
  /// `torch::manual_seed` seeds them.
  virtual void set_seed(std::uint64_t /*seed*/) {}
};

/// The version of the interface in this header. It is incremented whenever a
/// class in this header changes.
inline constexpr std::uint32_t kDeviceAbi = 5;

/// The table that a device library exports. The versions are checked before
/// `backend` is called.
struct DevicePlugin {
  std::uint32_t abi;             ///< Must be `kDeviceAbi`.
  std::uint32_t blocks_version;  ///< Must be `kFusedBlocksVersion`.
  const char* torch_version;
  /// Returns the only backend object in the library. Throws `UnsupportedError`
  /// if the backend cannot run on this machine.
  DeviceBackend& (*backend)();
};

/// The `extern "C"` function that a device library exports. It takes no
/// arguments and returns a `const DevicePlugin*`.
inline constexpr const char* kDeviceEntryName = "accelerate_device_plugin";

}  // namespace accelerate
