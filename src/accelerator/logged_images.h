// SPDX-License-Identifier: Apache-2.0
// Turns tensors into PNG files.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/tracker.h"

namespace accelerate {

/// Throws `ArgumentError` unless `tensor` holds images; `key` is its name in
/// the error.
void check_images(
    const std::string& key,
    const at::Tensor& tensor,
    const std::string& dataformats);

/// Returns the images in a tensor that `check_images` accepts, in host memory.
std::vector<EncodedImage> encode_images(
    const at::Tensor& tensor, const std::string& dataformats);

}  // namespace accelerate
