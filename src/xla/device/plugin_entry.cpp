// SPDX-License-Identifier: Apache-2.0
// The interface that libaccelerate_xla.so exports to libaccelerate.so.
#include <torch/headeronly/version.h>

#include "accelerate/export.h"
#include "device/xla_library.h"
#include "xla/device/generator.h"
#include "xla/device/operators.h"
#include "xla/device/tensors.h"

namespace accelerate::xla {
namespace {

class OpenDevice final : public XlaDevice {
 public:
  explicit OpenDevice(Tracer& tracer) : tracer_(tracer) {}

  std::int64_t device_count() const override { return client().device_count(); }
  void run() override {
    const auto lock = tracer_.lock();
    tracer_.run();
  }
  void run_until_written(const std::vector<at::Tensor>& tensors) override {
    const auto lock = tracer_.lock();
    if (const Node* last = last_written(tensors)) {
      tracer_.run_until(*last);
    }
  }
  void wait() override {
    const auto lock = tracer_.lock();
    tracer_.wait();
  }
  std::string platform() const override { return client().platform_name(); }
  std::string device_kind() const override { return client().device_kind(0); }
  DeviceMemory memory() const override {
    DeviceMemory fullest;
    for (std::int64_t i = 0; i < device_count(); ++i) {
      const auto use = client().memory_use(i);
      if (use && use->bytes_in_use >= fullest.total - fullest.free) {
        const std::int64_t total = use->bytes_limit.value_or(0);
        fullest = {.free = total - use->bytes_in_use, .total = total};
      }
    }
    return fullest;
  }
  void set_seed(std::uint64_t seed) override {
    at::Generator generator = default_generator();
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
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
  const Client& client() const { return tracer_.runner().client(); }

  // The newest value of these tensors that has not been computed yet.
  static const Node* last_written(const std::vector<at::Tensor>& tensors) {
    const Node* last = nullptr;
    for (const at::Tensor& tensor : tensors) {
      const Node* node = is_xla(tensor) ? cell_of(tensor).value.get() : nullptr;
      if (node != nullptr && node->op != Op::input &&
          (last == nullptr || node->sequence > last->sequence)) {
        last = node;
      }
    }
    return last;
  }

  Tracer& tracer_;
};

XlaDevice& open(const XlaOptions& options) {
  check_registered_in_time();
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
