// SPDX-License-Identifier: Apache-2.0
#include "accelerator/pending_numbers.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "device/device_library.h"
#include "device/lazy_device.h"

namespace accelerate {
namespace {

/// Waits for a tensor on a device and returns it on the CPU.
using PendingCopy = std::function<at::Tensor()>;

PendingCopy begin_copy(const at::Tensor& on_device) {
  const c10::Device device = on_device.device();
  // Starts the program here, because the other thread would cut the step at a
  // random place.
  if (LazyDevice* const lazy = lazy_device_of(device)) {
    lazy->run();
    return [on_device] { return on_device.to(at::kCPU); };
  }
  const at::Tensor on_cpu = at::empty(
      on_device.sizes(),
      at::TensorOptions(on_device.scalar_type()).pinned_memory(true));
  on_cpu.copy_(on_device, /*non_blocking=*/true);
  const auto done = std::make_shared<c10::Event>(device.type());
  const c10::impl::VirtualGuardImpl guard(device.type());
  done->record(guard.getStream(device));
  return [on_cpu, done] {
    done->synchronize();
    return on_cpu;
  };
}

// One tensor per device. Numbers of different types become doubles.
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
  struct Part {
    std::vector<std::size_t> positions;
    PendingCopy copy;
  };
  std::map<
      c10::Device,
      std::vector<std::size_t>,
      bool (*)(c10::Device, c10::Device)>
      by_device([](c10::Device a, c10::Device b) {
        return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index());
      });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    by_device[tensors[i].device()].push_back(i);
  }
  std::vector<Part> parts;
  for (const auto& [device, positions] : by_device) {
    std::vector<at::Tensor> on_device;
    for (const std::size_t position : positions) {
      on_device.push_back(tensors[position]);
    }
    parts.push_back({positions, begin_copy(stacked(on_device))});
  }
  return [parts = std::move(parts), size = tensors.size()] {
    std::vector<TrackedValue> numbers(size);
    for (const Part& part : parts) {
      const at::Tensor on_cpu = part.copy();
      for (std::size_t i = 0; i < part.positions.size(); ++i) {
        numbers[part.positions[i]] =
            number_in(on_cpu[static_cast<std::int64_t>(i)]);
      }
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
