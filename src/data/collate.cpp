// SPDX-License-Identifier: Apache-2.0
#include "accelerate/collate.h"

#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::detail {

at::Tensor stack_samples(const std::vector<at::Tensor>& samples) {
  for (const at::Tensor& sample : samples) {
    if (!sample.defined()) {
      throw ArgumentError(
          "a sample of the batch is an undefined tensor",
          "return a tensor with data from the dataset's `get`");
    }
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
  return at::stack(samples);
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
