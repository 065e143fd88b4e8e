// SPDX-License-Identifier: Apache-2.0
#include "accelerator/logged_images.h"

#include <cstdint>
#include <string_view>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tracking/png.h"

namespace accelerate {
namespace {

// The images as N x H x W x C.
at::Tensor channels_last(
    const at::Tensor& images, const std::string& dataformats) {
  at::Tensor batch = images.dim() == 3 ? images.unsqueeze(0) : images;
  return dataformats == "NCHW" ? batch.permute({0, 2, 3, 1}) : batch;
}

at::Tensor as_bytes(const at::Tensor& images) {
  if (images.scalar_type() == at::kByte) {
    return images.contiguous();
  }
  return images.to(at::kFloat)
      .nan_to_num(0.0)
      .mul(255)
      .clamp(0, 255)
      .to(at::kByte)
      .contiguous();
}

}  // namespace

void check_images(
    const std::string& key,
    const at::Tensor& tensor,
    const std::string& dataformats) {
  if (dataformats != "NCHW" && dataformats != "NHWC") {
    throw ArgumentError(
        str_cat("`dataformats` is `", dataformats, "`"),
        "use `NCHW` or `NHWC`");
  }
  const bool has_images =
      (tensor.dim() == 3 || tensor.dim() == 4) && tensor.numel() > 0 &&
      (tensor.scalar_type() == at::kByte || tensor.is_floating_point());
  const std::int64_t channels =
      has_images ? channels_last(tensor, dataformats).size(3) : 0;
  if (channels != 1 && channels != 3 && channels != 4) {
    throw ArgumentError(
        str_cat(
            "the value of `",
            key,
            "` passed to `log_images` cannot be read as `",
            dataformats,
            "` images: its type is ",
            tensor.scalar_type(),
            ", and its shape is ",
            tensor.sizes()),
        "pass a 3-D tensor (one image) or a 4-D tensor (a batch) with 1, 3 or "
        "4 channels, and with uint8 values or real numbers from 0 to 1");
  }
}

std::vector<EncodedImage> encode_images(
    const at::Tensor& tensor, const std::string& dataformats) {
  const at::NoGradGuard no_grad;
  const at::Tensor bytes = as_bytes(channels_last(tensor, dataformats));
  std::vector<EncodedImage> images;
  for (std::int64_t i = 0; i < bytes.size(0); ++i) {
    const at::Tensor image = bytes[i];
    images.push_back(
        {image.size(1),
         image.size(0),
         encode_png(
             {image.size(1), image.size(0), image.size(2)},
             std::string_view(
                 static_cast<const char*>(image.const_data_ptr()),
                 static_cast<std::size_t>(image.numel())))});
  }
  return images;
}

}  // namespace accelerate
