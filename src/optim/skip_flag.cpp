// SPDX-License-Identifier: Apache-2.0
#include "optim/skip_flag.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "device/device_library.h"

namespace accelerate {
namespace {

class DeviceSkipFlag : public SkipFlag {
 public:
  explicit DeviceSkipFlag(const at::Tensor& found_inf)
      : on_device_(found_inf.clone()),
        on_cpu_(at::empty(
            found_inf.sizes(),
            at::TensorOptions(at::kFloat)
                .pinned_memory(uses_pinned_memory(found_inf.device())))),
        done_(found_inf.device().type()) {
    on_cpu_.copy_(on_device_, /*non_blocking=*/true);
    const c10::impl::VirtualGuardImpl guard(on_device_.device().type());
    done_.record(guard.getStream(on_device_.device()));
  }

  bool is_ready() const override { return done_.query(); }
  bool value() const override {
    if (!done_.query()) {
      done_.synchronize();
    }
    return on_cpu_.item<float>() != 0.0F;
  }
  const at::Tensor& on_device() const override { return on_device_; }

 private:
  at::Tensor on_device_;
  at::Tensor on_cpu_;
  c10::Event done_;
};

}  // namespace

std::shared_ptr<const SkipFlag> skip_flag_from(const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  return std::make_shared<DeviceSkipFlag>(found_inf);
}

}  // namespace accelerate
