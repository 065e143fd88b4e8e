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
  explicit OpenDevice(Tracer& tracer) : tracer_(tracer) {}

  std::int64_t device_count() const override {
    return tracer_.runner().client().device_count();
  }
  void run() override {
    const auto lock = tracer_.lock();
    tracer_.run();
  }
  void wait() override {
    const auto lock = tracer_.lock();
    tracer_.wait();
  }
  at::Tensor upload_divided(const at::Tensor& tensor) override {
    const auto lock = tracer_.lock();
    const bool divides =
        tensor.dim() > 0 && tensor.size(0) % device_count() == 0;
    return make_tensor(
        upload(tensor.contiguous(), divides ? Sharding{0} : Sharding{}));
  }
  XlaCounts counts() override {
    const auto lock = tracer_.lock();
    const RunnerCounts& runner = tracer_.runner().counts();
    return {
        runner.compiled,
        runner.loaded,
        runner.executed,
        runner.donated,
        tracer_.counts().recorded,
        tracer_.counts().fallbacks,
        runner.compile_seconds};
  }
  std::map<std::string, std::int64_t> fallbacks() override {
    return cpu_fallbacks();
  }

 private:
  Tracer& tracer_;
};

XlaDevice& open(const XlaOptions& options) {
  Tracer& opened = open_device(
      {options.plugin, options.device_count, options.cache, options.strict});
  static OpenDevice device(opened);
  return device;
}

constexpr XlaPlugin kPlugin = {kXlaAbi, TORCH_VERSION, &register_device, &open};

}  // namespace
}  // namespace accelerate::xla

extern "C" ACCELERATE_API const accelerate::XlaPlugin* accelerate_xla_plugin() {
  return &accelerate::xla::kPlugin;
}
