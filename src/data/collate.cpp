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

// Whether the tensor is nothing but numbers in a row in host memory.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == c10::kStrided &&
         tensor.is_contiguous() && !tensor.requires_grad() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.is_quantized() &&
         !tensor.is_nested();
}

// `at::stack` makes a view of every sample first, which costs more than the
// copy of a small one.
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
          "a sample of the batch is an undefined tensor",
          "return a tensor with data from the dataset's `get`");
    }
    plain = plain && is_plain(sample) &&
            sample.scalar_type() == samples.front().scalar_type();
    if (sample.sizes() != samples.front().sizes()) {
      throw ArgumentError(
          str_cat(
              "samples of one batch have shapes ",
              samples.front().sizes(),
              " and ",
              sample.sizes()),
          "pad them in a `collate` function of your own");
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

void refuse_unequal(const char* what, std::size_t one, std::size_t other) {
  throw ArgumentError(
      str_cat("samples of one batch have ", one, " and ", other, " ", what),
      "return samples of one form, or join them in a `collate` function");
}

void refuse_missing_key(const std::string& key) {
  throw ArgumentError(
      str_cat(
          "a sample lacks the key `",
          key,
          "` that the first one of the batch has"),
      "return the same keys for every sample, or join them in a `collate` "
      "function");
}

}  // namespace accelerate::detail
