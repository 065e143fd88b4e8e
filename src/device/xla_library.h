// SPDX-License-Identifier: Apache-2.0
// The XLA device in libaccelerate_xla.so, which is loaded on demand.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "device/device_backend.h"
#include "device/lazy_device.h"

namespace accelerate {

struct XlaOptions {
  std::string plugin = {};  ///< Absolute path of a PJRT plugin.
  /// The number of devices to use. If not set, the CPU plugin uses one device,
  /// and any other plugin uses all devices.
  std::optional<std::int64_t> device_count = std::nullopt;
  /// The folder in which compiled programs are stored. If empty, programs are
  /// not stored.
  std::string cache = {};
  /// Whether an operator without a lowering is an error.
  bool strict = false;
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

/// The device `xla:0`: all XLA devices of this process as one mesh.
class XlaDevice : public LazyDevice {
 public:
  /// Returns the name of the platform in lower case, for example `cpu`.
  virtual std::string platform() const = 0;
  /// Returns the kind of the devices, for example `TPU v4`.
  virtual std::string device_kind() const = 0;
  /// Returns the memory of the fullest device; zeros if the plugin does not
  /// report it.
  virtual DeviceMemory memory() const = 0;

  /// Waits for all started programs. Throws if one of them failed.
  virtual void wait() = 0;

  /// Seeds the default random number generator.
  virtual void set_seed(std::uint64_t seed) = 0;

  virtual XlaCounts counts() = 0;
  /// Returns how often each operator ran on the CPU because it has no lowering.
  virtual std::map<std::string, std::int64_t> fallbacks() = 0;
};

/// The table that libaccelerate_xla.so exports. `abi` comes first, because the
/// layout of the rest depends on it.
struct XlaPlugin {
  std::uint32_t abi;  ///< Must be `kXlaAbi`.
  const char* torch_version;
  /// Registers the device with LibTorch. Must be called before the first
  /// `backward` of the process, because the autograd engine creates its threads
  /// in that call.
  void (*register_device)();
  /// Opens the plugin and its devices. A second call returns the same object,
  /// or throws `StateError` if the options differ. Throws `StateError` if
  /// `register_device` was called too late.
  XlaDevice& (*open)(const XlaOptions& options);
};

inline constexpr std::uint32_t kXlaAbi = 2;
inline constexpr const char* kXlaEntryName = "accelerate_xla_plugin";

/// Loads the library next to libaccelerate.so. Throws `UnsupportedError` if
/// this build has no such library, or if the library comes from another build.
const XlaPlugin& load_xla_library();

/// Loads the library at `path`, for tests.
const XlaPlugin& open_xla_library(const std::string& path);

}  // namespace accelerate
