// SPDX-License-Identifier: Apache-2.0
#include "parallel/bucket.h"

#include <map>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

namespace accelerate {
namespace {

// Each member starts on a cache line.
std::int64_t aligned(std::int64_t elements, at::ScalarType type) {
  const auto line = static_cast<std::int64_t>(64 / c10::elementSize(type));
  return (elements + line - 1) / line * line;
}

}  // namespace

std::vector<Bucket> plan_buckets(
    const std::vector<at::Tensor>& parameters,
    const std::vector<std::size_t>& order,
    const BucketOptions& options) {
  std::vector<Bucket> buckets;
  std::map<std::pair<std::string, at::ScalarType>, Bucket> open;
  const auto close = [&](Bucket& bucket) {
    if (!bucket.members.empty()) {
      buckets.push_back(std::move(bucket));
    }
    bucket = {};
  };
  for (const std::size_t index : order) {
    const at::Tensor& parameter = parameters[index];
    const at::ScalarType type = parameter.scalar_type();
    Bucket& bucket = open[{parameter.device().str(), type}];
    bucket.type = type;
    bucket.device = parameter.device();
    bucket.members.push_back(index);
    bucket.offsets.push_back(bucket.length);
    bucket.length += aligned(parameter.numel(), type);
    const auto bytes =
        bucket.length * static_cast<std::int64_t>(c10::elementSize(type));
    if (bytes >= (buckets.empty() ? options.first_bytes : options.bytes)) {
      close(bucket);
    }
  }
  for (auto& [key, bucket] : open) {
    close(bucket);
  }
  return buckets;
}

void allocate_buckets(
    std::vector<Bucket>& buckets,
    std::int64_t num_flags,
    const Group& group,
    const BucketOptions& options) {
  const auto narrowed = [&](const Bucket& bucket) {
    return options.wire_type && *options.wire_type != bucket.type &&
           !bucket.members.empty();
  };
  if (buckets.empty() || buckets.back().type != at::kFloat ||
      !buckets.back().device.is_cpu() || narrowed(buckets.back())) {
    buckets.emplace_back();
  }
  for (Bucket& bucket : buckets) {
    const std::int64_t length =
        bucket.length + (&bucket == &buckets.back() ? num_flags : 0);
    const auto flat_options =
        at::TensorOptions(bucket.device).dtype(bucket.type);
    const bool supported = group.supports(bucket.device);
    const auto wire_options =
        at::TensorOptions(supported ? bucket.device : c10::Device(c10::kCPU))
            .dtype(narrowed(bucket) ? *options.wire_type : bucket.type);
    if (narrowed(bucket) || !supported) {
      bucket.flat = at::empty({length}, flat_options);
      bucket.wire = group.allocate(length, at::empty({0}, wire_options));
    } else {
      bucket.flat = group.allocate(length, at::empty({0}, flat_options));
      bucket.wire = bucket.flat;
    }
    bucket.flat.zero_();
  }
}

at::Tensor view_of(
    const Bucket& bucket, std::int64_t offset, const at::Tensor& parameter) {
  // `Optimizer::zero_grad` detaches in place, which ordinary views do not
  // allow. A view that is created below autograd's dispatch keys is a plain
  // tensor.
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (parameter.is_non_overlapping_and_dense()) {
    return bucket.flat.as_strided(
        parameter.sizes(), parameter.strides(), offset);
  }
  return bucket.flat.narrow(0, offset, parameter.numel())
      .view(parameter.sizes());
}

}  // namespace accelerate
