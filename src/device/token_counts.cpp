// SPDX-License-Identifier: Apache-2.0
#include "device/token_counts.h"

#include "device/fused_blocks.h"

namespace accelerate {
namespace {

// Larger batches keep the device busy anyway.
constexpr std::int64_t kMaxElements = 1 << 16;

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

// LibTorch keeps this object with the tensor. Its slot is meant for device
// backends; none of LibTorch's own backends uses it.
struct AttachedCounts : c10::BackendMeta {
  // A shallow copy of the tensor can be modified without a change of this
  // tensor's version, so it gets no counts.
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>& /*self*/) const override {
    return {};
  }

  TokenCounts counts;
  std::uint32_t version = 0;
};

// Ids are recognized in their first row, so they cost almost nothing.
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
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  const c10::BackendMeta* const other = impl->get_backend_meta();
  if (tensor.is_inference() ||
      (other != nullptr &&
       dynamic_cast<const AttachedCounts*>(other) == nullptr)) {
    return;
  }
  auto attached = c10::make_intrusive<AttachedCounts>();
  attached->counts = counts;
  attached->version = version_of(tensor);
  impl->set_backend_meta(std::move(attached));
}

std::optional<TokenCounts> token_counts_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_inference()) {
    return std::nullopt;
  }
  const auto* const attached = dynamic_cast<const AttachedCounts*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta());
  return attached != nullptr && attached->version == version_of(tensor)
             ? std::optional(attached->counts)
             : std::nullopt;
}

}  // namespace accelerate
