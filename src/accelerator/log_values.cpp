// SPDX-License-Identifier: Apache-2.0
#include "accelerate/log_values.h"

#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {

LogValue::LogValue(Histogram value)
    : value_(std::make_shared<const Histogram>(std::move(value))) {
}

LogValue::LogValue(const Tensor& value)
    : value_(std::make_shared<const Tensor>(value)) {
}

LogValue::LogValue(std::initializer_list<LogEntry> values)
    : value_(std::make_shared<const LogValues>(values)) {
}

LogValue::LogValue(LogValues values)
    : value_(std::make_shared<const LogValues>(std::move(values))) {
}

Histogram histogram_of(const Tensor& tensor, std::int64_t bins) {
  if (bins < 1) {
    throw ArgumentError(
        str_cat("a histogram cannot have ", bins, " intervals"),
        "pass 1 or more");
  }
  const at::NoGradGuard no_grad;
  at::Tensor values = tensor.detach().to(at::kCPU, at::kDouble).flatten();
  values = values.masked_select(values.isfinite());
  Histogram histogram;
  if (values.numel() == 0) {
    return histogram;
  }
  histogram.min = values.min().item<double>();
  histogram.max = values.max().item<double>();
  histogram.sum = values.sum().item<double>();
  histogram.sum_squares = values.square().sum().item<double>();
  const at::Tensor counts =
      at::histc(values, bins, histogram.min, histogram.max);
  const double width =
      (histogram.max - histogram.min) / static_cast<double>(bins);
  for (std::int64_t i = 0; i < bins; ++i) {
    histogram.limits.push_back(
        i + 1 == bins ? histogram.max
                      : histogram.min + width * static_cast<double>(i + 1));
    histogram.counts.push_back(counts[i].item<double>());
  }
  return histogram;
}

}  // namespace accelerate
