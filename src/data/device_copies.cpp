// SPDX-License-Identifier: Apache-2.0
#include "data/device_copies.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "accelerate/operations.h"
#include "device/host_copies.h"
#include "device/out_of_memory.h"

namespace accelerate {
namespace {

c10::Stream stream_for(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return device.is_cpu() ? guard.getStream(device)
                         : guard.getStreamFromGlobalPool(device);
}

// Ids and masks: little to keep, and what shapes of later steps follow from.
bool is_worth_keeping(const at::Tensor& tensor) {
  constexpr std::int64_t kMost = 1 << 16;
  return tensor.is_cpu() && tensor.dim() == 2 && tensor.numel() <= kMost &&
         !tensor.is_inference() &&
         c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

bool is_here(const at::Tensor& tensor, c10::Device device) {
  return !tensor.defined() || tensor.device() == device;
}

}  // namespace

DeviceCopies::DeviceCopies(c10::Device device)
    : device_(device), stream_(stream_for(device)) {
}

std::vector<at::Tensor> DeviceCopies::copy(
    const std::vector<at::Tensor>& tensors, bool non_blocking) const {
  if (device_.is_cpu()) {
    return detail::to_device(tensors, device_, non_blocking);
  }
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const c10::Stream user = guard.getStream(device_);
  std::vector<at::Tensor> moved = tensors;
  c10::Event done(device_.type());
  {
    const c10::StreamGuard on_ours(stream_);
    for (at::Tensor& tensor : moved) {
      if (!is_here(tensor, device_)) {
        tensor = with_memory_errors(device_, [&] {
          return tensor.to(
              device_,
              tensor.scalar_type(),
              non_blocking || (tensor.is_cpu() && tensor.is_pinned()));
        });
      }
    }
    done.record(stream_);
  }
  done.block(user);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    // Its memory belongs to our stream and is used on the user's.
    if (!is_here(tensors[i], device_)) {
      moved[i].record_stream(user);
      if (is_worth_keeping(tensors[i]) && !moved[i].is_inference()) {
        remember_host_copy(moved[i], tensors[i]);
      }
    }
  }
  return moved;
}

}  // namespace accelerate
