// SPDX-License-Identifier: Apache-2.0
#include "accelerate/collate.h"

#include <cstddef>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::detail {
namespace {

// Whether the tensor is a plain contiguous array in host memory.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == c10::kStrided &&
         tensor.is_contiguous() && !tensor.requires_grad() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.is_quantized() &&
         !tensor.is_nested();
}

// `at::stack` creates a view of every sample first, which costs more than
// copying a small one.
at::Tensor copy_rows(const std::vector<at::Tensor>& samples) {
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(samples.size())};
  const auto row = samples.front().sizes();
  sizes.insert(sizes.end(), row.begin(), row.end());
  at::Tensor batch = at::empty(sizes, samples.front().options());
  const std::size_t bytes = samples.front().nbytes();
  auto* to = static_cast<std::byte*>(batch.mutable_data_ptr());
  for (std::size_t i = 0; i < samples.size() && bytes > 0; ++i) {
    std::memcpy(to + i * bytes, samples[i].const_data_ptr(), bytes);
  }
  return batch;
}

}  // namespace

at::Tensor stack_samples(const std::vector<at::Tensor>& samples) {
  bool plain = true;
  for (const at::Tensor& sample : samples) {
    if (!sample.defined()) {
      throw ArgumentError(
          "a sample in the batch is an undefined tensor",
          "make the dataset's `get` return a tensor with data");
    }
    plain = plain && is_plain(sample) &&
            sample.scalar_type() == samples.front().scalar_type();
    if (sample.sizes() != samples.front().sizes()) {
      throw ArgumentError(
          str_cat(
              "samples in one batch have shapes ",
              samples.front().sizes(),
              " and ",
              sample.sizes()),
          "pad them in a custom `collate` function");
    }
  }
  return plain ? copy_rows(samples) : at::stack(samples);
}

at::Tensor tensor_of(
    const void* numbers, std::int64_t count, c10::ScalarType type) {
  at::Tensor tensor = at::empty({count}, at::TensorOptions(type));
  if (count > 0) {
    std::memcpy(tensor.mutable_data_ptr(), numbers, tensor.nbytes());
  }
  return tensor;
}

void refuse_unequal(const char* item, std::size_t first, std::size_t other) {
  throw ArgumentError(
      str_cat("samples in one batch have ", first, " and ", other, " ", item),
      "return samples with the same structure, or use a custom `collate` "
      "function");
}

void refuse_missing_key(const std::string& key) {
  throw ArgumentError(
      str_cat(
          "a sample does not have the key `",
          key,
          "` that the first sample in the batch has"),
      "return the same keys for every sample, or use a custom `collate` "
      "function");
}

}  // namespace accelerate::detail
