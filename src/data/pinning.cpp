// SPDX-License-Identifier: Apache-2.0
#include "data/pinning.h"

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "device/device_library.h"

namespace accelerate {

void check_pinning() {
  if (find_device_backend() == nullptr) {
    throw UnsupportedError(
        "`pin_memory` is on, but there is no GPU to pin memory for",
        "leave out `pin_memory`: it is on by default when batches go to a GPU");
  }
}

void pin(const detail::BatchSource& source, const Portion& portion) {
  if (!portion.batch || !source.is_nest()) {
    return;
  }
  auto tensors = source.tensors(portion.batch.get());
  for (at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_cpu() &&
        tensor.layout() == at::kStrided && !tensor.is_pinned()) {
      tensor = tensor.pin_memory();
    }
  }
  source.set_tensors(portion.batch.get(), tensors);
}

}  // namespace accelerate
