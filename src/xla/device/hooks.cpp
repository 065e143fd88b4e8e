// SPDX-License-Identifier: Apache-2.0
// The device guard and the hooks through which LibTorch finds the XLA device.
//
// One logical device, `xla:0`, stands for the mesh of all devices of the
// process. It has one stream: programs run in the order in which they were
// traced.
#include <ATen/detail/XLAHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "xla/device/generator.h"
#include "xla/device/registration.h"
#include "xla/device/tensors.h"
#include "xla/device/tracer.h"

namespace accelerate::xla {
namespace {

const c10::Device kDevice(c10::kXLA, 0);

void wait_for_device() {
  if (is_open()) {
    Tracer& all = tracer();
    const auto lock = all.lock();
    all.wait();
  }
}

class XlaGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kXLA; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override {
    return kDevice;
  }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device /*device*/) const override {}
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::Stream getStream(c10::Device /*device*/) const override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const c10::Stream& /*stream*/) const override {
    return true;
  }
  void synchronizeStream(const c10::Stream& /*stream*/) const override {
    wait_for_device();
  }
  void synchronizeDevice(const c10::DeviceIndex /*device*/) const override {
    wait_for_device();
  }
};

struct XlaHooks final : at::XLAHooksInterface {
  void init() const override {}
  bool hasXLA() const override { return true; }
  std::string showConfig() const override { return "accelerate XLA device"; }
  const at::Generator& getDefaultGenerator(
      c10::DeviceIndex /*device*/) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex /*device*/) const override {
    return make_generator();
  }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return is_open(); }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override {
    return is_open();
  }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex /*device*/) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex /*device*/) const override {
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(
      c10::DeviceIndex /*device*/) const override {
    return 0;
  }
};

}  // namespace

void register_hooks() {
  static XlaGuard guard;
  c10::SetAllocator(c10::kXLA, &cell_allocator());
  static const c10::impl::DeviceGuardImplRegistrar registrar(c10::kXLA, &guard);
  // The name under which LibTorch looks the hooks up.
  at::XLAHooksRegistry()->Register(
      "torch_xla::detail::XLAHooks",
      [](at::XLAHooksArgs) -> std::unique_ptr<at::XLAHooksInterface> {
        return std::make_unique<XlaHooks>();
      });
}

}  // namespace accelerate::xla
