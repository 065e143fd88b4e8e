// SPDX-License-Identifier: Apache-2.0
// The devices of a PJRT plugin, their buffers and their programs. Does not use
// LibTorch.
//
//     Client client(Plugin(path), {.device_count = 2});
//     Buffer x = client.upload(data, ElementType::f32, {2, 3}, /*device=*/0);
//     Executable program = client.compile(stablehlo, {});
//     auto results = program.execute({{&x}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xla/element_type.h"
#include "xla/pjrt/compile_options.h"
#include "xla/pjrt/plugin.h"

struct PJRT_Buffer;
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Event;
struct PJRT_LoadedExecutable;

namespace accelerate::xla {

/// The client handle that buffers and programs keep alive.
class ClientHandle;

/// Work that a plugin finishes later. Destroying the event does not wait.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const ClientHandle> client, PJRT_Event* event);
  Event(Event&&) noexcept = default;
  Event& operator=(Event&&) noexcept = default;

  /// Waits until the work is finished. Throws if it failed. A second call
  /// returns immediately.
  void wait();
  /// Returns whether `wait` would return immediately.
  bool is_ready() const;

 private:
  struct Destroy {
    std::shared_ptr<const ClientHandle> client;
    void operator()(PJRT_Event* event) const;
  };
  std::unique_ptr<PJRT_Event, Destroy> event_;
};

/// A dense array in the memory of one device. Movable; destroying it frees the
/// memory as soon as no running program needs it.
class Buffer {
 public:
  Buffer(std::shared_ptr<const ClientHandle> client, PJRT_Buffer* buffer);

  ElementType type() const;
  Shape shape() const;

  /// Waits until the array has been computed and copies it to `to`, dense and
  /// row-major. Throws `ArgumentError` unless `bytes` is the size of the array.
  void download(void* to, std::size_t bytes) const;

  /// Returns whether a program has taken over the memory (donation).
  bool is_deleted() const;

  PJRT_Buffer* get() const { return buffer_.get(); }

 private:
  struct Destroy {
    std::shared_ptr<const ClientHandle> client;
    void operator()(PJRT_Buffer* buffer) const;
  };
  const ClientHandle& client() const { return *buffer_.get_deleter().client; }
  std::unique_ptr<PJRT_Buffer, Destroy> buffer_;
};

/// A compiled program for one or more devices. Movable, thread-safe.
class Executable {
 public:
  /// The result of `execute`; the outputs are `outputs[device][output]`.
  struct Run {
    std::vector<std::vector<Buffer>> outputs;
    std::vector<Event> finished;  ///< One event per device.
  };

  Executable(
      std::shared_ptr<const ClientHandle> client,
      PJRT_LoadedExecutable* executable);

  /// Starts the program. `arguments[device][argument]` has one list for each
  /// device for which the program was compiled. An argument that the program's
  /// text marks as donated is deleted.
  Run execute(const std::vector<std::vector<const Buffer*>>& arguments) const;

  std::size_t num_outputs() const { return num_outputs_; }
  std::int64_t num_devices() const { return num_devices_; }

  /// Returns the compiled code, for `Client::load`. Throws `UnsupportedError`
  /// if the plugin cannot serialize programs.
  std::string serialize() const;

 private:
  struct Destroy {
    std::shared_ptr<const ClientHandle> client;
    void operator()(PJRT_LoadedExecutable* executable) const;
  };
  const ClientHandle& client() const {
    return *executable_.get_deleter().client;
  }
  std::unique_ptr<PJRT_LoadedExecutable, Destroy> executable_;
  std::size_t num_outputs_ = 0;
  std::int64_t num_devices_ = 0;
};

struct ClientOptions {
  /// The number of devices to use. The CPU plugin creates this many devices.
  /// With any other plugin, the constructor of `Client` throws if the machine
  /// has fewer devices. If not set, the CPU plugin uses one device, and any
  /// other plugin uses all devices.
  std::optional<std::int64_t> device_count;
};

/// The memory of one device, as reported by the plugin.
struct MemoryUse {
  std::int64_t bytes_in_use = 0;
  std::optional<std::int64_t> bytes_limit;
};

/// A connection to all devices of this process. Thread-safe.
class Client {
 public:
  explicit Client(const Plugin& plugin, const ClientOptions& options = {});

  std::int64_t device_count() const;
  /// Returns the name of the platform, for example `cpu`.
  std::string platform_name() const;
  std::string platform_version() const;
  /// Returns the model of a device, for example `TPU v4`.
  std::string device_kind(std::int64_t device) const;
  /// Returns nothing if the plugin does not report memory use.
  std::optional<MemoryUse> memory_use(std::int64_t device) const;

  /// Copies a dense row-major array to a device. `from` may be reused when this
  /// function returns.
  Buffer upload(
      const void* from,
      ElementType type,
      const Shape& shape,
      std::int64_t device) const;

  /// Compiles StableHLO text.
  Executable compile(
      std::string_view text, const CompileOptions& options) const;

  /// Loads the result of `Executable::serialize`, which must come from the same
  /// release of the plugin.
  Executable load(std::string_view serialized) const;

 private:
  std::shared_ptr<const ClientHandle> handle_;
};

}  // namespace accelerate::xla
