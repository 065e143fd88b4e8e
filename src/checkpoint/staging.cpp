// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/staging.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "checkpoint/fresh_memory.h"
#include "checkpoint/large_copies.h"
#include "checkpoint/page_filler.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

constexpr std::size_t kSlack = std::size_t{1} << 20;

std::shared_ptr<const FreshMemory> fresh_memory(const std::size_t bytes) {
  return std::make_shared<const FreshMemory>(
      bytes,
      "for a copy of the state that is being saved",
      "save with `{.blocking = true}`, which needs no copy");
}

at::Tensor tensor_over(const std::shared_ptr<const FreshMemory>& memory) {
  return at::from_blob(
      memory->data(),
      {static_cast<std::int64_t>(memory->size())},
      [memory](void*) {},
      at::TensorOptions(at::kByte));
}

// Tensors with equal identities have the same memory, type, shape and strides.
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

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous();
}

// Whether a tensor is large enough to be aligned to a page.
bool is_large(const at::Tensor& tensor) {
  return is_plain(tensor) && tensor.nbytes() >= kMinPageAlignedBytes;
}

// `filler`, if there is one, covers all of `to`.
void copy(at::Tensor& to, const at::Tensor& from, PageFiller* filler) {
  if (!is_plain(from)) {
    to.copy_(from, /*non_blocking=*/true);
    return;
  }
  auto* target = static_cast<std::byte*>(to.mutable_data_ptr());
  const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
  for_each_page_range(
      from.nbytes(), [&](const std::size_t begin, const std::size_t end) {
        if (filler == nullptr ||
            !filler->fill(target + begin, source + begin, end - begin)) {
          copy_bypassing_caches(target + begin, source + begin, end - begin);
        }
      });
}

// Calls `visit` with each tensor that the rank may write.
template <typename AnyPart, typename Visit>
void for_each_tensor(AnyPart& part, const Visit& visit) {
  for (auto& file : part.tensors) {
    for (auto& [name, tensor] : file.tensors) {
      visit(tensor);
    }
  }
  for (auto& [key, ranges] : part.ranges) {
    for (auto& [name, tensor] : ranges.tensors) {
      visit(tensor);
    }
  }
}

// The offset of each tensor; tensors that share memory have the same offset.
class Offsets {
 public:
  explicit Offsets(const Part& part) {
    for_each_tensor(part, [&](const at::Tensor& tensor) { add(tensor); });
  }

  std::size_t bytes() const { return large_bytes_ + small_bytes_; }
  const std::vector<c10::Device>& devices() const { return devices_; }
  /// Whether copies from one of the devices run in the background.
  bool use_pinned_memory() const {
    return std::ranges::any_of(devices_, uses_pinned_memory);
  }

  /// Large tensors come first, each at the beginning of a page.
  std::size_t of(const at::Tensor& tensor) const {
    const std::size_t offset = offsets_.at(identity_of(tensor));
    return is_large(tensor) ? offset : large_bytes_ + offset;
  }

  /// The byte range of the large tensors that begin at `reached` or later.
  std::pair<std::size_t, std::size_t> large_from(std::size_t reached) const {
    const auto begin = std::ranges::lower_bound(large_offsets_, reached);
    return {
        begin == large_offsets_.end() ? large_bytes_ : *begin, large_bytes_};
  }

 private:
  void add(const at::Tensor& tensor) {
    const bool large = is_large(tensor);
    std::size_t& end = large ? large_bytes_ : small_bytes_;
    if (tensor.numel() > 0 &&
        offsets_.try_emplace(identity_of(tensor), end).second) {
      if (large) {
        large_offsets_.push_back(end);
      }
      end += large ? aligned_to_pages(tensor.nbytes())
                   : aligned_for_tensors(tensor.nbytes());
    }
    if (!tensor.is_cpu() &&
        std::ranges::count(devices_, tensor.device()) == 0) {
      devices_.push_back(tensor.device());
    }
  }

  std::map<Identity, std::size_t> offsets_;
  std::vector<std::size_t> large_offsets_;
  std::size_t large_bytes_ = 0;
  std::size_t small_bytes_ = 0;
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

// Stops the background thread early: the copy touches the remaining pages
// itself, with more threads.
void Staging::end_preparing() {
  if (!preparing_.valid()) {
    return;
  }
  stop_preparing_ = true;
  try {
    preparing_.get();
  } catch (const std::exception&) {
    memory_.reset();  // The next copy tries again and reports the error.
  }
}

void Staging::prepare(const Part& part) {
  end_preparing();
  const Offsets offsets(part);
  // Leaves room for small tensors that are added later, such as the state of
  // ranks.
  const std::size_t bytes = offsets.bytes() + offsets.bytes() / 64 + kSlack;
  stop_preparing_ = false;
  preparing_ = std::async(
      std::launch::async, [this, bytes, pinned = offsets.use_pinned_memory()] {
        reserve(bytes, pinned);
        if (fresh_) {
          fresh_->touch(stop_preparing_);
        }
      });
}

at::Tensor Staging::staged_view(
    const at::Tensor& tensor, const std::size_t offset) const {
  const auto begin = static_cast<std::int64_t>(offset);
  const auto end = begin + static_cast<std::int64_t>(tensor.nbytes());
  return memory_.slice(0, begin, end)
      .view(tensor.scalar_type())
      .view(tensor.sizes());
}

void Staging::copy_in(Part& part) {
  end_preparing();
  const Offsets offsets(part);
  reserve(
      std::max(offsets.bytes(), kTensorAlignment), offsets.use_pinned_memory());
  std::unique_ptr<PageFiller> filler;
  if (fresh_ && fresh_->touched() < fresh_->size()) {
    const auto [begin, end] = offsets.large_from(fresh_->touched());
    filler = PageFiller::over(fresh_->data() + begin, end - begin);
  }
  std::set<std::size_t> copied;
  for_each_tensor(part, [&](at::Tensor& tensor) {
    if (tensor.numel() == 0) {
      tensor = tensor.detach().cpu();
      return;
    }
    const std::size_t offset = offsets.of(tensor);
    at::Tensor staged = staged_view(tensor, offset);
    if (copied.insert(offset).second) {
      const bool fills = filler && filler->covers(fresh_->data() + offset);
      copy(staged, tensor.detach(), fills ? filler.get() : nullptr);
    }
    tensor = std::move(staged);
  });
  if (fresh_) {
    fresh_->set_touched();
  }
  for (const c10::Device& device : offsets.devices()) {
    c10::impl::VirtualGuardImpl(device.type())
        .synchronizeDevice(device.index());
  }
}

}  // namespace accelerate
