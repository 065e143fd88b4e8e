// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/client.h"

#include "xla/pjrt/client_handle.h"

namespace accelerate::xla {
namespace {

PJRT_NamedValue named_value(const ClientOption& option) {
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = option.name.c_str();
  value.name_size = option.name.size();
  value.type = PJRT_NamedValue_kInt64;
  value.int64_value = option.value;
  value.value_size = 1;
  return value;
}

PJRT_Client* create(
    const PluginApi& api, const std::vector<ClientOption>& options) {
  std::vector<PJRT_NamedValue> values;
  for (const ClientOption& option : options) {
    values.push_back(named_value(option));
  }
  ACCELERATE_PJRT_ARGS(Client_Create, args);
  args.create_options = values.data();
  args.num_options = values.size();
  ACCELERATE_PJRT_CALL(api, Client_Create, args, "open the devices");
  return args.client;
}

std::vector<PJRT_Device*> devices_of(const ClientHandle& handle) {
  ACCELERATE_PJRT_ARGS(Client_AddressableDevices, args);
  args.client = handle.client;
  ACCELERATE_PJRT_CALL(
      *handle.api, Client_AddressableDevices, args, "list the devices");
  return {
      args.addressable_devices,
      args.addressable_devices + args.num_addressable_devices};
}

void take_devices(std::vector<PJRT_Device*>& devices, std::int64_t wanted) {
  const auto found = static_cast<std::int64_t>(devices.size());
  if (wanted < 1) {
    throw ArgumentError(
        str_cat("cannot use ", wanted, " XLA devices"), "request 1 or more");
  }
  if (found < wanted) {
    throw ArgumentError(
        str_cat(
            wanted,
            " XLA devices were requested, but this machine has ",
            found),
        str_cat("request at most ", found));
  }
  devices.resize(static_cast<std::size_t>(wanted));
}

PJRT_Device* device_at(const ClientHandle& handle, std::int64_t device) {
  if (device < 0 ||
      device >= static_cast<std::int64_t>(handle.devices.size())) {
    throw ArgumentError(str_cat(
        "there is no XLA device ",
        device,
        "; the number of XLA devices in this process is ",
        handle.devices.size()));
  }
  return handle.devices[static_cast<std::size_t>(device)];
}

}  // namespace

Client::Client(const Plugin& plugin, const ClientOptions& options) {
  const auto given =
      client_options(plugin.kind(), options.device_count.value_or(1));
  const auto handle = std::make_shared<ClientHandle>(
      plugin.api(), create(*plugin.api(), given));
  handle->devices = devices_of(*handle);
  if (options.device_count) {
    take_devices(handle->devices, *options.device_count);
  }
  handle_ = handle;
}

std::int64_t Client::device_count() const {
  return static_cast<std::int64_t>(handle_->devices.size());
}

std::string Client::platform_name() const {
  ACCELERATE_PJRT_ARGS(Client_PlatformName, args);
  args.client = handle_->client;
  ACCELERATE_PJRT_CALL(
      *handle_->api, Client_PlatformName, args, "read the platform's name");
  return {args.platform_name, args.platform_name_size};
}

std::string Client::platform_version() const {
  ACCELERATE_PJRT_ARGS(Client_PlatformVersion, args);
  args.client = handle_->client;
  ACCELERATE_PJRT_CALL(
      *handle_->api,
      Client_PlatformVersion,
      args,
      "read the platform's version");
  return {args.platform_version, args.platform_version_size};
}

std::string Client::device_kind(std::int64_t device) const {
  ACCELERATE_PJRT_ARGS(Device_GetDescription, description);
  description.device = device_at(*handle_, device);
  ACCELERATE_PJRT_CALL(
      *handle_->api, Device_GetDescription, description, "describe a device");
  ACCELERATE_PJRT_ARGS(DeviceDescription_Kind, args);
  args.device_description = description.device_description;
  ACCELERATE_PJRT_CALL(
      *handle_->api, DeviceDescription_Kind, args, "describe a device");
  return {args.device_kind, args.device_kind_size};
}

std::optional<MemoryUse> Client::memory_use(std::int64_t device) const {
  ACCELERATE_PJRT_ARGS(Device_MemoryStats, args);
  args.device = device_at(*handle_, device);
  try {
    ACCELERATE_PJRT_CALL(
        *handle_->api, Device_MemoryStats, args, "read the memory in use");
  } catch (const UnsupportedError&) {
    return std::nullopt;
  }
  MemoryUse use;
  use.bytes_in_use = args.bytes_in_use;
  if (args.bytes_limit_is_set) {
    use.bytes_limit = args.bytes_limit;
  }
  return use;
}

Buffer Client::upload(
    const void* from,
    ElementType type,
    const Shape& shape,
    std::int64_t device) const {
  std::vector<std::int64_t> order;
  PJRT_Buffer_MemoryLayout layout = row_major(shape.size(), order);
  ACCELERATE_PJRT_ARGS(Client_BufferFromHostBuffer, args);
  args.client = handle_->client;
  args.data = from;
  args.type = pjrt_type(type);
  args.dims = shape.data();
  args.num_dims = shape.size();
  args.host_buffer_semantics =
      PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = device_at(*handle_, device);
  args.device_layout = &layout;
  ACCELERATE_PJRT_CALL(
      *handle_->api, Client_BufferFromHostBuffer, args, "upload a tensor");
  Buffer buffer(handle_, args.buffer);
  Event(handle_, args.done_with_host_buffer).wait();
  return buffer;
}

Executable Client::compile(
    std::string_view text, const CompileOptions& options) const {
  const std::string encoded = encode(options);
  constexpr std::string_view kFormat = "mlir";
  std::string code(text);
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  ACCELERATE_PJRT_ARGS(Client_Compile, args);
  args.client = handle_->client;
  args.program = &program;
  args.compile_options = encoded.data();
  args.compile_options_size = encoded.size();
  ACCELERATE_PJRT_CALL(
      *handle_->api, Client_Compile, args, "compile a program");
  return Executable(handle_, args.executable);
}

Executable Client::load(std::string_view serialized) const {
  ACCELERATE_PJRT_ARGS(Executable_DeserializeAndLoad, args);
  args.client = handle_->client;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  ACCELERATE_PJRT_CALL(
      *handle_->api,
      Executable_DeserializeAndLoad,
      args,
      "load a compiled program");
  return Executable(handle_, args.loaded_executable);
}

}  // namespace accelerate::xla
