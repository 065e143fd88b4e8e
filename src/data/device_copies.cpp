// SPDX-License-Identifier: Apache-2.0
#include "data/device_copies.h"

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

DeviceCopies::Begun DeviceCopies::begin(
    const std::vector<at::Tensor>& tensors, bool non_blocking) const {
  if (device_.is_cpu()) {
    return {detail::to_device(tensors, device_, non_blocking), {}, nullptr};
  }
  Begun begun{tensors, {}, std::make_shared<c10::Event>(device_.type())};
  const c10::StreamGuard on_ours(stream_);
  for (at::Tensor& tensor : begun.tensors) {
    begun.are_copies.push_back(!is_here(tensor, device_));
    if (!begun.are_copies.back()) {
      continue;
    }
    const at::Tensor on_host = tensor;
    tensor = with_memory_errors(device_, [&] {
      return on_host.to(
          device_,
          on_host.scalar_type(),
          non_blocking || (on_host.is_cpu() && on_host.is_pinned()));
    });
    if (is_worth_keeping(on_host) && !tensor.is_inference()) {
      remember_host_copy(tensor, on_host);
    }
  }
  begun.done->record(stream_);
  return begun;
}

void DeviceCopies::finish(const Begun& begun) const {
  if (!begun.done) {
    return;
  }
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const c10::Stream user = guard.getStream(device_);
  begun.done->block(user);
  for (std::size_t i = 0; i < begun.tensors.size(); ++i) {
    // Its memory belongs to our stream and is used on the user's.
    if (begun.are_copies[i]) {
      at::Tensor(begun.tensors[i]).record_stream(user);
    }
  }
}

std::vector<at::Tensor> DeviceCopies::copy(
    const std::vector<at::Tensor>& tensors, bool non_blocking) const {
  Begun begun = begin(tensors, non_blocking);
  finish(begun);
  return std::move(begun.tensors);
}

}  // namespace accelerate
