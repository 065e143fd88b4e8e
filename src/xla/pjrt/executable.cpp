// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/client_handle.h"

namespace accelerate::xla {
namespace {

struct DestroyUnloaded {
  const PluginApi* api;
  void operator()(PJRT_Executable* executable) const {
    ACCELERATE_PJRT_ARGS(Executable_Destroy, args);
    args.executable = executable;
    ACCELERATE_PJRT_DESTROY(*api, Executable_Destroy, args);
  }
};

using Unloaded = std::unique_ptr<PJRT_Executable, DestroyUnloaded>;

Unloaded unloaded(const PluginApi& api, PJRT_LoadedExecutable* loaded) {
  ACCELERATE_PJRT_ARGS(LoadedExecutable_GetExecutable, args);
  args.loaded_executable = loaded;
  ACCELERATE_PJRT_CALL(
      api, LoadedExecutable_GetExecutable, args, "describe a program");
  return Unloaded(args.executable, DestroyUnloaded{&api});
}

std::size_t count_outputs(const PluginApi& api, PJRT_Executable* executable) {
  ACCELERATE_PJRT_ARGS(Executable_NumOutputs, args);
  args.executable = executable;
  ACCELERATE_PJRT_CALL(api, Executable_NumOutputs, args, "describe a program");
  return args.num_outputs;
}

std::int64_t count_devices(
    const PluginApi& api, PJRT_LoadedExecutable* executable) {
  ACCELERATE_PJRT_ARGS(LoadedExecutable_AddressableDevices, args);
  args.executable = executable;
  ACCELERATE_PJRT_CALL(
      api, LoadedExecutable_AddressableDevices, args, "describe a program");
  return static_cast<std::int64_t>(args.num_addressable_devices);
}

// Arguments or results as the C interface takes them: an array per device.
struct DeviceLists {
  std::vector<std::vector<PJRT_Buffer*>> lists;
  std::vector<PJRT_Buffer**> pointers;

  explicit DeviceLists(std::size_t devices) : lists(devices) {}
  PJRT_Buffer*** data() {
    for (auto& list : lists) {
      pointers.push_back(list.data());
    }
    return pointers.data();
  }
};

}  // namespace

Executable::Executable(
    std::shared_ptr<const ClientHandle> handle,
    PJRT_LoadedExecutable* executable)
    : executable_(executable, Destroy{std::move(handle)}) {
  const PluginApi& api = *client().api;
  num_outputs_ = count_outputs(api, unloaded(api, executable).get());
  num_devices_ = count_devices(api, executable);
}

void Executable::Destroy::operator()(PJRT_LoadedExecutable* executable) const {
  ACCELERATE_PJRT_ARGS(LoadedExecutable_Destroy, args);
  args.executable = executable;
  ACCELERATE_PJRT_DESTROY(*client->api, LoadedExecutable_Destroy, args);
}

Executable::Run Executable::execute(
    const std::vector<std::vector<const Buffer*>>& arguments) const {
  if (static_cast<std::int64_t>(arguments.size()) != num_devices_) {
    throw ArgumentError(str_cat(
        "a program for ",
        num_devices_,
        " devices got arguments for ",
        arguments.size()));
  }
  const std::size_t devices = arguments.size();
  DeviceLists inputs(devices);
  DeviceLists outputs(devices);
  for (std::size_t device = 0; device < devices; ++device) {
    for (const Buffer* buffer : arguments[device]) {
      inputs.lists[device].push_back(buffer->get());
    }
    outputs.lists[device].resize(num_outputs_);
  }
  std::vector<PJRT_Event*> finished(devices);
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  ACCELERATE_PJRT_ARGS(LoadedExecutable_Execute, args);
  args.executable = executable_.get();
  args.options = &options;
  args.argument_lists = inputs.data();
  args.num_devices = devices;
  args.num_args = arguments[0].size();
  args.output_lists = outputs.data();
  args.device_complete_events = finished.data();
  ACCELERATE_PJRT_CALL(
      *client().api, LoadedExecutable_Execute, args, "run a program");

  const auto& handle = executable_.get_deleter().client;
  Run run;
  for (std::size_t device = 0; device < devices; ++device) {
    auto& buffers = run.outputs.emplace_back();
    for (PJRT_Buffer* buffer : outputs.lists[device]) {
      buffers.emplace_back(handle, buffer);
    }
    run.finished.emplace_back(handle, finished[device]);
  }
  return run;
}

std::string Executable::serialize() const {
  const PluginApi& api = *client().api;
  const Unloaded executable = unloaded(api, executable_.get());
  ACCELERATE_PJRT_ARGS(Executable_Serialize, args);
  args.executable = executable.get();
  ACCELERATE_PJRT_CALL(api, Executable_Serialize, args, "serialize a program");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

}  // namespace accelerate::xla
