// SPDX-License-Identifier: Apache-2.0
// The devices of a PJRT plugin, their buffers and their programs. No LibTorch.
//
//     Client client(Plugin(path), {.device_count = 2});
//     Buffer x = client.upload(values, ElementType::f32, {2, 3}, /*device=*/0);
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

/// Something that a plugin finishes later. Destroying it does not wait.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const ClientHandle> client, PJRT_Event* event);
  Event(Event&&) noexcept = default;
  Event& operator=(Event&&) noexcept = default;

  /// Returns when the work is finished; throws if it failed. A second call
  /// returns at once.
  void wait();
  /// Whether `wait` would return at once.
  bool is_ready() const;

 private:
  struct Destroy {
    std::shared_ptr<const ClientHandle> client;
    void operator()(PJRT_Event* event) const;
  };
  std::unique_ptr<PJRT_Event, Destroy> event_;
};

/// A dense array in the memory of one device. Movable; destroying it frees the
/// memory as soon as running programs allow it.
class Buffer {
 public:
  Buffer(std::shared_ptr<const ClientHandle> client, PJRT_Buffer* buffer);

  ElementType type() const;
  Shape shape() const;

  /// Waits for the value and copies it, dense and row-major. Throws
  /// `ArgumentError` unless `bytes` is exactly its size.
  void download(void* to, std::size_t bytes) const;

  /// Whether a program has taken the memory (donation).
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
  /// What a run returns: `outputs[device][output]`.
  struct Run {
    std::vector<std::vector<Buffer>> outputs;
    std::vector<Event> finished;  ///< One event per device.
  };

  Executable(
      std::shared_ptr<const ClientHandle> client,
      PJRT_LoadedExecutable* executable);

  /// Starts the program with `arguments[device][argument]`, one list for each
  /// device it was compiled for. An argument that the program's text marks as
  /// donated is deleted.
  Run execute(const std::vector<std::vector<const Buffer*>>& arguments) const;

  std::size_t num_outputs() const { return num_outputs_; }
  std::int64_t num_devices() const { return num_devices_; }

  /// The compiled code, for `Client::load`; throws `UnsupportedError` if the
  /// plugin cannot give it.
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
  /// How many devices to use, for a plugin that can make as many as it is
  /// asked for (the CPU); a plugin with fewer real devices is an error.
  std::optional<std::int64_t> device_count;
};

/// Memory of one device, as far as the plugin knows it.
struct MemoryUse {
  std::int64_t bytes_in_use = 0;
  std::optional<std::int64_t> bytes_limit;
};

/// A connection to all devices of this process. Thread-safe.
class Client {
 public:
  explicit Client(const Plugin& plugin, const ClientOptions& options = {});

  std::int64_t device_count() const;
  /// For example `cpu`.
  std::string platform_name() const;
  std::string platform_version() const;
  /// For example `TPU v4`.
  std::string device_kind(std::int64_t device) const;
  /// Nothing if the plugin does not count.
  std::optional<MemoryUse> memory_use(std::int64_t device) const;

  /// Copies a dense row-major array to a device; `from` may be reused at once.
  Buffer upload(
      const void* from,
      ElementType type,
      const Shape& shape,
      std::int64_t device) const;

  /// Compiles StableHLO in text form.
  Executable compile(
      std::string_view text, const CompileOptions& options) const;

  /// Loads what `Executable::serialize` returned, of the same plugin release.
  Executable load(std::string_view serialized) const;

 private:
  std::shared_ptr<const ClientHandle> handle_;
};

}  // namespace accelerate::xla
