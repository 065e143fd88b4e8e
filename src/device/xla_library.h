// SPDX-License-Identifier: Apache-2.0
// The XLA device in libaccelerate_xla.so, which is loaded on demand.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace accelerate {

struct XlaOptions {
  std::string plugin = {};        ///< Absolute path of a PJRT plugin.
  std::int64_t device_count = 1;  ///< For a plugin that can choose (the CPU).
  std::string cache = {};  ///< Folder for compiled programs; none if empty.
  bool strict = false;     ///< An operator without a lowering is an error.
};

/// What the device has done so far.
struct XlaCounts {
  std::int64_t compiled = 0;   ///< Programs compiled by the plugin.
  std::int64_t loaded = 0;     ///< Programs read from the cache instead.
  std::int64_t executed = 0;   ///< Programs run.
  std::int64_t donated = 0;    ///< Buffers donated by the last run.
  std::int64_t recorded = 0;   ///< Operators recorded.
  std::int64_t fallbacks = 0;  ///< Operators run on the CPU.
  double compile_seconds = 0;
};

/// `xla:0`: all devices of this process as one mesh. Operators on its tensors
/// are recorded; `run` computes them. Thread-safe.
class XlaDevice {
 public:
  virtual ~XlaDevice() = default;

  /// The number of devices in the mesh.
  virtual std::int64_t device_count() const = 0;

  /// Starts one program that computes every live tensor. Call it at the end of
  /// a training step: equal steps then use one compiled program.
  virtual void run() = 0;

  /// Waits for all started programs; throws if one failed.
  virtual void wait() = 0;

  /// Copies a CPU tensor to the mesh, each device getting an equal part of
  /// dimension 0. If the devices do not divide its size, all get all of it.
  virtual at::Tensor upload_divided(const at::Tensor& tensor) = 0;

  virtual XlaCounts counts() = 0;
  /// How often each operator ran on the CPU for want of a lowering.
  virtual std::map<std::string, std::int64_t> fallbacks() = 0;
};

/// The table that libaccelerate_xla.so exports. `abi` comes first: the layout
/// of the rest depends on it.
struct XlaPlugin {
  std::uint32_t abi;  ///< Must be `kXlaAbi`.
  const char* torch_version;
  /// Registers the device with LibTorch. Must happen before the first
  /// `backward` of the process, because the autograd engine makes its threads
  /// then.
  void (*register_device)();
  /// Opens the plugin and its devices. A second call with the same options
  /// returns the same object; with others it throws `StateError`.
  XlaDevice& (*open)(const XlaOptions& options);
};

inline constexpr std::uint32_t kXlaAbi = 1;
inline constexpr const char* kXlaEntryName = "accelerate_xla_plugin";

/// Loads the library next to libaccelerate.so. Throws `UnsupportedError` if
/// this build has none or it is of another build.
const XlaPlugin& load_xla_library();

/// Loads the library at `path`, for tests.
const XlaPlugin& open_xla_library(const std::string& path);

}  // namespace accelerate
