// SPDX-License-Identifier: Apache-2.0
// The interface that libaccelerate_xla.so exports to libaccelerate.so.
#include <torch/headeronly/version.h>

#include "accelerate/export.h"
#include "device/xla_library.h"
#include "xla/device/operators.h"
#include "xla/device/tensors.h"

namespace accelerate::xla {
namespace {

class OpenDevice final : public XlaDevice {
 public:
  explicit OpenDevice(Recording& recording) : recording_(recording) {}

  std::int64_t device_count() const override {
    return recording_.runner().client().device_count();
  }
  void run() override {
    const auto lock = recording_.lock();
    recording_.run();
  }
  void wait() override {
    const auto lock = recording_.lock();
    recording_.wait();
  }
  at::Tensor upload_divided(const at::Tensor& tensor) override {
    const auto lock = recording_.lock();
    const bool divides =
        tensor.dim() > 0 && tensor.size(0) % device_count() == 0;
    return make_tensor(
        upload(tensor.contiguous(), divides ? Sharding{0} : Sharding{}));
  }
  XlaCounts counts() override {
    const auto lock = recording_.lock();
    const RunnerCounts& runner = recording_.runner().counts();
    return {
        runner.compiled, runner.loaded, runner.executed, runner.donated,
        recording_.counts().recorded, recording_.counts().fallbacks,
        runner.compile_seconds};
  }
  std::map<std::string, std::int64_t> fallbacks() override {
    return cpu_fallbacks();
  }

 private:
  Recording& recording_;
};

XlaDevice& open(const XlaOptions& options) {
  Recording& recording = open_device(
      {options.plugin, options.device_count, options.cache, options.strict});
  static OpenDevice device(recording);
  return device;
}

constexpr XlaPlugin kPlugin = {kXlaAbi, TORCH_VERSION, &register_device, &open};

}  // namespace
}  // namespace accelerate::xla

extern "C" ACCELERATE_API const accelerate::XlaPlugin* accelerate_xla_plugin() {
  return &accelerate::xla::kPlugin;
}
