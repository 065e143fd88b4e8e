// SPDX-License-Identifier: Apache-2.0
#include "device/xla_backend.h"

#include <filesystem>

#include <ATen/CPUGeneratorImpl.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "device/device_library.h"
#include "device/xla_library.h"

namespace accelerate {
namespace {

constexpr const char* kKind = "PJRT_DEVICE";
constexpr const char* kPlugin = "PJRT_PLUGIN_PATH";

class XlaBackend final : public DeviceBackend {
 public:
  explicit XlaBackend(XlaDevice& device) : device_(device) {}

  const char* name() const override { return "XLA"; }
  c10::DeviceType type() const override { return c10::kXLA; }
  int device_count() const override { return 1; }
  std::string describe(int /*index*/) const override {
    return str_cat(device_.device_count(), " × ", device_.device_kind());
  }
  std::string identity(int index) const override { return describe(index); }
  void use_device(int /*index*/) const override {}
  bool computes_in(c10::ScalarType /*type*/, int /*index*/) const override {
    return true;
  }
  DeviceMemory memory(int /*index*/) const override { return device_.memory(); }
  const char* collectives() const override { return "xla"; }
  c10d::Backend* create_group(
      const DeviceGroupOptions& /*options*/) const override {
    throw UnsupportedError(
        "XLA devices have no process group: one process drives all of them");
  }
  std::unique_ptr<DeviceGraph> make_graph(
      int /*index*/, const DeviceGraph* /*pool*/) const override {
    throw UnsupportedError(
        "XLA devices do not support CUDA graphs: XLA compiles each step as a "
        "whole");
  }
  bool is_capturing() const override { return false; }
  LazyDevice* lazy_device() override { return &device_; }
  bool uses_pinned_memory() const override { return false; }
  void set_seed(std::uint64_t seed) override { device_.set_seed(seed); }

 private:
  XlaDevice& device_;
};

void check_kind(const Environment& environment) {
  const auto kind = environment.get(kKind);
  if (kind && *kind != "CPU" && *kind != "TPU" && *kind != "CUDA") {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kKind,
            " is `",
            *kind,
            "`, but must be CPU, TPU or CUDA"),
        "set the variable to one of these values, or unset it to train without "
        "XLA");
  }
}

std::string plugin_path(const Environment& environment) {
  const auto path = environment.get(kPlugin);
  if (!path) {
    throw ConfigError(
        str_cat("XLA was chosen, but ", kPlugin, " is not set"),
        str_cat(
            "set ",
            kPlugin,
            " to the absolute path of a PJRT plugin, for example the plugin in "
            "the wheel `xla-cpu-pjrt`"));
  }
  // The search order of `dlopen` could find another file of this name.
  if (!std::filesystem::path(*path).is_absolute()) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kPlugin,
            " is `",
            *path,
            "`, which is not an absolute path"),
        str_cat(
            "set it to `",
            std::filesystem::absolute(*path).lexically_normal().string(),
            "`"));
  }
  return *path;
}

XlaOptions options_in(const Environment& environment) {
  check_kind(environment);
  XlaOptions options;
  options.plugin = plugin_path(environment);
  if (environment.get(kKind).value_or("CPU") == "CPU") {
    options.device_count = environment.get_integer("CPU_NUM_DEVICES", 1);
  }
  options.cache = environment.get("ACCELERATE_XLA_CACHE").value_or("");
  options.strict =
      environment.get_flag("ACCELERATE_XLA_STRICT").value_or(false);
  return options;
}

// Otherwise, a run that was meant for TPUs would train on the CPU.
void check_platform(
    const Environment& environment,
    const XlaOptions& options,
    const std::string& platform) {
  const auto kind = environment.get(kKind);
  if (kind && lower(*kind) != platform) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kKind,
            " is `",
            *kind,
            "`, but the devices of the plugin ",
            options.plugin,
            " belong to the platform `",
            platform,
            "`"),
        str_cat(
            "set ",
            kPlugin,
            " to a plugin for this kind of device, or change ",
            kKind));
  }
}

// Registers the device with LibTorch while the program starts, before any
// backward pass. An error is reported when an Accelerator opens the device.
[[maybe_unused]] const bool registered_at_start = [] {
  if (!chooses_xla(Environment::of_this_process())) {
    return false;
  }
  try {
    load_xla_library().register_device();
    return true;
  } catch (const Error&) {
    return false;
  }
}();

}  // namespace

bool chooses_xla(const Environment& environment) {
  return environment.has(kKind) || environment.get("ACCELERATE_TORCH_DEVICE")
                                       .value_or("")
                                       .starts_with("xla");
}

DeviceBackend& open_xla_backend(const Environment& environment) {
  const XlaOptions options = options_in(environment);
  const XlaPlugin& library = load_xla_library();
  library.register_device();
  XlaDevice& device = library.open(options);
  check_platform(environment, options, device.platform());
  static XlaBackend& backend = [&device]() -> XlaBackend& {
    // Never destroyed: tensors in static variables outlive `main`.
    auto* created = new XlaBackend(device);
    // The seed of an earlier `set_seed`.
    created->set_seed(at::detail::getDefaultCPUGenerator().current_seed());
    register_device_backend(c10::kXLA, created);
    return *created;
  }();
  return backend;
}

}  // namespace accelerate
