// SPDX-License-Identifier: Apache-2.0
#include "device/token_counts.h"

#include <algorithm>

#include "device/fused_blocks.h"

namespace accelerate {
namespace {

// Unpadding does not help with larger batches, because they keep the device
// busy anyway.
constexpr std::int64_t kMaxElements = 1 << 16;
// A loader reads this many values in less than a millisecond.
constexpr std::int64_t kMaxRangeElements = 1 << 20;
constexpr std::int64_t kIgnoredValue = -100;

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

// Stored in a slot of the tensor that LibTorch provides for device backends; no
// backend in LibTorch uses the slot.
struct AttachedFacts : c10::BackendMeta {
  // A shallow copy of the tensor can be modified without a change of this
  // tensor's version, so it gets no counts.
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>& /*self*/) const override {
    return {};
  }

  std::optional<TokenCounts> counts;
  std::optional<ValueRange> range;
  std::uint32_t version = 0;
};

// Returns the facts that are valid for the tensor's current values.
const AttachedFacts* facts_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_inference()) {
    return nullptr;
  }
  const auto* const facts = dynamic_cast<const AttachedFacts*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta());
  return facts != nullptr && facts->version == version_of(tensor) ? facts
                                                                  : nullptr;
}

// Adds facts to the tensor by calling `add`.
template <typename Add>
void attach(const at::Tensor& tensor, const Add& add) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  const c10::BackendMeta* const other = impl->get_backend_meta();
  if (tensor.is_inference() ||
      (other != nullptr &&
       dynamic_cast<const AttachedFacts*>(other) == nullptr)) {
    return;
  }
  auto attached = c10::make_intrusive<AttachedFacts>();
  if (const AttachedFacts* const valid = facts_of(tensor)) {
    attached->counts = valid->counts;
    attached->range = valid->range;
  }
  add(*attached);
  attached->version = version_of(tensor);
  impl->set_backend_meta(std::move(attached));
}

template <typename T>
ValueRange range_of_values(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  const auto* const begin = static_cast<const T*>(values.const_data_ptr());
  ValueRange range;
  for (const T* value = begin; value != begin + values.numel(); ++value) {
    if (*value == kIgnoredValue) {
      range.has_ignored = true;
    } else {
      range.min = std::min<std::int64_t>(range.min, *value);
      range.max = std::max<std::int64_t>(range.max, *value);
    }
  }
  return range;
}

// Stops after the first row that contains a value other than 0 and 1, so a
// tensor of token ids takes almost no time.
template <typename T>
std::optional<TokenCounts> count_rows(const at::Tensor& matrix_BT) {
  const at::Tensor values_BT = matrix_BT.contiguous();
  const std::int64_t tokens = values_BT.size(1);
  const auto* row = static_cast<const T*>(values_BT.const_data_ptr());
  TokenCounts counts;
  for (std::int64_t i = 0; i < values_BT.size(0) && tokens > 0; ++i) {
    std::int64_t all_bits = 0;
    for (std::int64_t k = 0; k < tokens; ++k) {
      all_bits |= row[k];
      counts.real += row[k] & 1;
    }
    if ((all_bits & ~std::int64_t{1}) != 0) {
      return std::nullopt;
    }
    counts.has_first_tokens &= row[0] != 0;
    row += tokens;
  }
  return counts;
}

}  // namespace

std::optional<TokenCounts> count_tokens(const at::Tensor& on_cpu) {
  if (!on_cpu.defined() || !on_cpu.is_cpu() || on_cpu.dim() != 2 ||
      on_cpu.size(1) > kShortSequence || on_cpu.numel() > kMaxElements) {
    return std::nullopt;
  }
  switch (on_cpu.scalar_type()) {
    case at::kLong:
      return count_rows<std::int64_t>(on_cpu);
    case at::kInt:
      return count_rows<std::int32_t>(on_cpu);
    case at::kShort:
      return count_rows<std::int16_t>(on_cpu);
    case at::kChar:
      return count_rows<std::int8_t>(on_cpu);
    case at::kByte:
    case at::kBool:  // Stored as bytes.
      return count_rows<std::uint8_t>(on_cpu);
    default:
      return std::nullopt;
  }
}

void attach_token_counts(const at::Tensor& tensor, const TokenCounts& counts) {
  attach(tensor, [&](AttachedFacts& facts) { facts.counts = counts; });
}

std::optional<TokenCounts> token_counts_of(const at::Tensor& tensor) {
  const AttachedFacts* const facts = facts_of(tensor);
  return facts != nullptr ? facts->counts : std::nullopt;
}

std::optional<ValueRange> find_range(const at::Tensor& on_cpu) {
  if (!on_cpu.defined() || !on_cpu.is_cpu()) {
    return std::nullopt;
  }
  switch (on_cpu.scalar_type()) {
    case at::kLong:
      return range_of_values<std::int64_t>(on_cpu);
    case at::kInt:
      return range_of_values<std::int32_t>(on_cpu);
    case at::kShort:
      return range_of_values<std::int16_t>(on_cpu);
    case at::kChar:
      return range_of_values<std::int8_t>(on_cpu);
    case at::kByte:
      return range_of_values<std::uint8_t>(on_cpu);
    default:
      return std::nullopt;
  }
}

void attach_range(const at::Tensor& tensor, const ValueRange& range) {
  attach(tensor, [&](AttachedFacts& facts) { facts.range = range; });
}

std::optional<ValueRange> known_range(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.is_cpu()) {
    return find_range(tensor);
  }
  const AttachedFacts* const facts = facts_of(tensor);
  return facts != nullptr ? facts->range : std::nullopt;
}

void attach_facts(const at::Tensor& copy, const at::Tensor& on_cpu) {
  if (const auto counts = count_tokens(on_cpu)) {
    attach_token_counts(copy, *counts);
  }
  if (on_cpu.numel() <= kMaxRangeElements) {
    if (const auto range = find_range(on_cpu)) {
      attach_range(copy, *range);
    }
  }
}

}  // namespace accelerate
