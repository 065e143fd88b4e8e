// SPDX-License-Identifier: Apache-2.0
#include "data/device_copies.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "accelerate/operations.h"
#include "device/device_library.h"
#include "device/lazy_device.h"
#include "device/out_of_memory.h"
#include "device/token_counts.h"

namespace accelerate {
namespace {

c10::Stream stream_for(c10::Device device, bool separate) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return separate ? guard.getStreamFromGlobalPool(device)
                  : guard.getStream(device);
}

bool is_on_device(const at::Tensor& tensor, c10::Device device) {
  return !tensor.defined() || tensor.device() == device;
}

}  // namespace

DeviceCopies::DeviceCopies(c10::Device device)
    : device_(device),
      lazy_(lazy_device_of(device)),
      stream_(stream_for(device, !device.is_cpu() && lazy_ == nullptr)) {
}

void DeviceCopies::end_step() const {
  if (lazy_ != nullptr) {
    lazy_->run();
  }
}

at::Tensor DeviceCopies::copied(
    const at::Tensor& tensor, bool non_blocking) const {
  if (lazy_ != nullptr && tensor.is_cpu()) {
    return lazy_->upload_divided(tensor);
  }
  return tensor.to(
      device_,
      tensor.scalar_type(),
      non_blocking || (tensor.is_cpu() && tensor.is_pinned()));
}

DeviceCopies::PendingCopy DeviceCopies::begin(
    const std::vector<at::Tensor>& tensors, bool non_blocking) const {
  if (device_.is_cpu()) {
    return {detail::to_device(tensors, device_, non_blocking), {}, nullptr};
  }
  PendingCopy pending{tensors, {}, nullptr};
  const c10::StreamGuard on_copy_stream(stream_);
  for (at::Tensor& tensor : pending.tensors) {
    pending.are_copies.push_back(!is_on_device(tensor, device_));
    if (!pending.are_copies.back()) {
      continue;
    }
    const at::Tensor on_cpu = tensor;
    tensor = with_memory_errors(
        device_, [&] { return copied(on_cpu, non_blocking); });
    attach_facts(tensor, on_cpu);
  }
  if (lazy_ == nullptr) {
    pending.done = std::make_shared<c10::Event>(device_.type());
    pending.done->record(stream_);
  }
  return pending;
}

void DeviceCopies::finish(const PendingCopy& pending) const {
  if (!pending.done) {
    return;
  }
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const c10::Stream current = guard.getStream(device_);
  pending.done->block(current);
  for (std::size_t i = 0; i < pending.tensors.size(); ++i) {
    // The copy was allocated on the copy stream and is used on the current
    // stream.
    if (pending.are_copies[i]) {
      at::Tensor(pending.tensors[i]).record_stream(current);
    }
  }
}

std::vector<at::Tensor> DeviceCopies::copy(
    const std::vector<at::Tensor>& tensors, bool non_blocking) const {
  PendingCopy pending = begin(tensors, non_blocking);
  finish(pending);
  return std::move(pending.tensors);
}

}  // namespace accelerate
