// SPDX-License-Identifier: Apache-2.0
#include "accelerator/pending_numbers.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "device/device_library.h"
#include "device/fused_blocks.h"
#include "device/lazy_device.h"

namespace accelerate {
namespace {

/// Waits for a tensor on a device and returns it on the CPU.
using PendingCopy = std::function<at::Tensor()>;
/// Waits for numbers on a device and returns them.
using PendingNumbers = std::function<std::vector<TrackedValue>()>;

std::shared_ptr<c10::Event> event_after_copy(c10::Device device) {
  auto event = std::make_shared<c10::Event>(device.type());
  const c10::impl::VirtualGuardImpl guard(device.type());
  event->record(guard.getStream(device));
  return event;
}

PendingCopy begin_copy(const at::Tensor& on_device) {
  const c10::Device device = on_device.device();
  // Runs the pending XLA operations here: if the thread that reads the copy ran
  // them, it would split the step into two programs at a random place.
  if (LazyDevice* const lazy = lazy_device_of(device)) {
    lazy->run();
    return [on_device] { return on_device.to(at::kCPU); };
  }
  const at::Tensor on_cpu = at::empty(
      on_device.sizes(),
      at::TensorOptions(on_device.scalar_type()).pinned_memory(true));
  on_cpu.copy_(on_device, /*non_blocking=*/true);
  return [on_cpu, done = event_after_copy(device)] {
    done->synchronize();
    return on_cpu;
  };
}

TrackedValue number_in_slot(c10::ScalarType type, std::int64_t slot) {
  if (type == at::kBool) {
    return slot != 0;
  }
  if (c10::isIntegralType(type, /*includeBool=*/false)) {
    return slot;
  }
  return std::bit_cast<double>(slot);
}

// Reads the numbers with one kernel, which writes to host memory. Returns null
// if there is no such kernel for a type.
PendingNumbers begin_with_one_kernel(
    const FusedBlocks& blocks, const std::vector<at::Tensor>& tensors) {
  const at::Tensor slots = at::empty(
      {static_cast<std::int64_t>(tensors.size())},
      at::TensorOptions(at::kLong).pinned_memory(true));
  if (!blocks.copy_numbers(tensors, slots.mutable_data_ptr<std::int64_t>())) {
    return nullptr;
  }
  std::vector<c10::ScalarType> types;
  types.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    types.push_back(tensor.scalar_type());
  }
  return [slots,
          types = std::move(types),
          done = event_after_copy(tensors.front().device())] {
    done->synchronize();
    std::vector<TrackedValue> numbers;
    const auto* slot = static_cast<const std::int64_t*>(slots.const_data_ptr());
    for (const c10::ScalarType type : types) {
      numbers.push_back(number_in_slot(type, *slot++));
    }
    return numbers;
  };
}

// One tensor for all numbers. Numbers of different types become doubles.
at::Tensor stacked(const std::vector<at::Tensor>& tensors) {
  const bool same_type = std::ranges::all_of(tensors, [&](const auto& tensor) {
    return tensor.scalar_type() == tensors.front().scalar_type();
  });
  std::vector<at::Tensor> scalars;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor scalar = tensor.detach().reshape({});
    scalars.push_back(same_type ? scalar : scalar.to(at::kDouble));
  }
  return at::stack(scalars);
}

// The tensors are on one device.
PendingNumbers begin_on_device(const std::vector<at::Tensor>& tensors) {
  const FusedBlocks* blocks = fused_blocks_of(tensors.front().device().type());
  if (blocks != nullptr) {
    if (PendingNumbers numbers = begin_with_one_kernel(*blocks, tensors)) {
      return numbers;
    }
  }
  return [copy = begin_copy(stacked(tensors))] {
    const at::Tensor on_cpu = copy();
    std::vector<TrackedValue> numbers;
    for (std::int64_t i = 0; i < on_cpu.size(0); ++i) {
      numbers.push_back(number_in(on_cpu[i]));
    }
    return numbers;
  };
}

}  // namespace

TrackedValue number_in(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kBool) {
    return tensor.item<bool>();
  }
  if (c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) {
    return tensor.item<std::int64_t>();
  }
  return tensor.item<double>();
}

std::function<std::vector<TrackedValue>()> begin_reading(
    const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  const c10::Device first = tensors.front().device();
  if (std::ranges::all_of(tensors, [&](const at::Tensor& tensor) {
        return tensor.device() == first;
      })) {
    return begin_on_device(tensors);
  }
  std::vector<PendingNumbers> parts;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(begin_on_device({tensor}));
  }
  return [parts = std::move(parts)] {
    std::vector<TrackedValue> numbers;
    for (const PendingNumbers& part : parts) {
      numbers.push_back(part().front());
    }
    return numbers;
  };
}

std::function<at::Tensor()> begin_copying(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  if (tensor.device().is_cpu()) {
    return [copy = tensor.detach().clone()] { return copy; };
  }
  return begin_copy(tensor.detach().contiguous());
}

}  // namespace accelerate
