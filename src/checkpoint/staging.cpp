// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/staging.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "checkpoint/fresh_memory.h"

namespace accelerate {
namespace {

constexpr std::size_t kSlack = std::size_t{1} << 20;
// Bytes that are worth a thread.
constexpr std::int64_t kGrain = std::int64_t{8} << 20;

std::shared_ptr<const FreshMemory> fresh_memory(const std::size_t bytes) {
  return std::make_shared<const FreshMemory>(
      bytes,
      "for a copy of the state to be saved",
      "save with `{.blocking = true}`, which needs no copy");
}

at::Tensor tensor_over(const std::shared_ptr<const FreshMemory>& memory) {
  return at::from_blob(
      memory->data(),
      {static_cast<std::int64_t>(memory->size())},
      [memory](void*) {},
      at::TensorOptions(at::kByte));
}

// Tensors that are the same piece of memory in the same form.
using Identity = std::tuple<
    const void*,
    c10::ScalarType,
    std::vector<std::int64_t>,
    std::vector<std::int64_t>>;

Identity identity_of(const at::Tensor& tensor) {
  return {
      tensor.const_data_ptr(),
      tensor.scalar_type(),
      tensor.sizes().vec(),
      tensor.strides().vec()};
}

void copy(at::Tensor& to, const at::Tensor& from) {
  if (!from.is_cpu() || !from.is_contiguous()) {
    to.copy_(from, /*non_blocking=*/true);
    return;
  }
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  at::parallel_for(
      0,
      static_cast<std::int64_t>(from.nbytes()),
      kGrain,
      [&](const std::int64_t begin, const std::int64_t end) {
        std::memcpy(
            target + begin,
            source + begin,
            static_cast<std::size_t>(end - begin));
      });
}

// Where each tensor goes; those that are one have one place.
class Places {
 public:
  explicit Places(const Part& part) {
    for (const TensorFile& file : part.tensors) {
      for (const auto& [name, tensor] : file.tensors) {
        add(tensor);
      }
    }
  }

  std::size_t bytes() const { return bytes_; }
  const std::vector<c10::Device>& devices() const { return devices_; }

  std::size_t of(const at::Tensor& tensor) const {
    return offsets_.at(identity_of(tensor));
  }

 private:
  void add(const at::Tensor& tensor) {
    if (tensor.numel() > 0 &&
        offsets_.try_emplace(identity_of(tensor), bytes_).second) {
      bytes_ += aligned_for_tensors(tensor.nbytes());
    }
    if (!tensor.is_cpu() &&
        std::ranges::count(devices_, tensor.device()) == 0) {
      devices_.push_back(tensor.device());
    }
  }

  std::map<Identity, std::size_t> offsets_;
  std::size_t bytes_ = 0;
  std::vector<c10::Device> devices_;
};

}  // namespace

void Staging::reserve(const std::size_t bytes, const bool pinned) {
  const auto have = memory_.defined() ? memory_.nbytes() : 0;
  if (have >= bytes && have / 2 <= bytes && pinned == pinned_) {
    return;
  }
  memory_.reset();
  fresh_.reset();
  pinned_ = pinned;
  if (pinned) {
    memory_ = at::empty(
        {static_cast<std::int64_t>(bytes)},
        at::TensorOptions(at::kByte).pinned_memory(true));
  } else {
    fresh_ = fresh_memory(bytes);
    memory_ = tensor_over(fresh_);
  }
}

Staging::~Staging() {
  end_preparing();
}

// What it has not reached is touched by the copy itself, with more threads.
void Staging::end_preparing() {
  if (!preparing_.valid()) {
    return;
  }
  stop_preparing_ = true;
  try {
    preparing_.get();
  } catch (const std::exception&) {
    memory_.reset();  // Whoever needs it will try again, and may say why.
  }
}

void Staging::prepare(const Part& part) {
  end_preparing();
  const Places places(part);
  // Little of a state comes later, such as the numbers of ranks.
  const std::size_t bytes = places.bytes() + places.bytes() / 64 + kSlack;
  stop_preparing_ = false;
  preparing_ = std::async(
      std::launch::async, [this, bytes, pinned = !places.devices().empty()] {
        reserve(bytes, pinned);
        if (fresh_) {
          fresh_->touch(stop_preparing_);
        }
      });
}

at::Tensor Staging::place_for(
    const at::Tensor& tensor, const std::size_t offset) const {
  const auto begin = static_cast<std::int64_t>(offset);
  const auto end = begin + static_cast<std::int64_t>(tensor.nbytes());
  return memory_.slice(0, begin, end)
      .view(tensor.scalar_type())
      .view(tensor.sizes());
}

void Staging::take(Part& part) {
  end_preparing();
  const Places places(part);
  reserve(
      std::max(places.bytes(), kTensorAlignment), !places.devices().empty());
  std::set<std::size_t> copied;
  for (TensorFile& file : part.tensors) {
    for (auto& [name, tensor] : file.tensors) {
      if (tensor.numel() == 0) {
        tensor = tensor.detach().cpu();
        continue;
      }
      const std::size_t offset = places.of(tensor);
      at::Tensor staged = place_for(tensor, offset);
      if (copied.insert(offset).second) {
        copy(staged, tensor.detach());
      }
      tensor = std::move(staged);
    }
  }
  for (const c10::Device& device : places.devices()) {
    c10::impl::VirtualGuardImpl(device.type())
        .synchronizeDevice(device.index());
  }
}

}  // namespace accelerate
