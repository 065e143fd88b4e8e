// SPDX-License-Identifier: Apache-2.0
// Gradients that are all-reduced together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/group.h"

namespace accelerate {

/// The gradients of some parameters in one flat tensor. These parameters are
/// the members of the bucket. See reducer.h for the flags.
struct Bucket {
  std::vector<std::size_t> members;   ///< indices of parameters
  std::vector<std::int64_t> offsets;  ///< offset of each member, in elements
  std::int64_t length = 0;            ///< number of elements without the flags
  at::ScalarType type = at::kFloat;
  c10::Device device = c10::Device(c10::kCPU);

  at::Tensor flat;  ///< the gradient sums of the members; in the last bucket,
                    ///< the flags follow
  at::Tensor wire;  ///< the tensor to all-reduce: `flat` itself, or a copy in a
                    ///< narrower type or on a device the backend supports
};

struct BucketOptions {
  std::int64_t first_bytes = 1 << 20;
  std::int64_t bytes = 25 << 20;
  /// Element type of the all-reduce. Default: the type of the parameters.
  std::optional<at::ScalarType> wire_type = std::nullopt;
};

/// Assigns the parameters to buckets in the given order. All members of a
/// bucket have the same type and device. The first bucket is smaller, so that
/// its all-reduce can begin early.
std::vector<Bucket> plan_buckets(
    const std::vector<at::Tensor>& parameters,
    const std::vector<std::size_t>& order,
    const BucketOptions& options);

/// Allocates the tensors of the buckets, with `num_flags` elements for the
/// flags at the end of the last bucket. The flags must be sent as fp32 from
/// host memory. If the last bucket is not in fp32, is on another device, or is
/// sent in a narrower type, first adds a bucket that holds only the flags.
///
/// Collective.
void allocate_buckets(
    std::vector<Bucket>& buckets,
    std::int64_t num_flags,
    const Group& group,
    const BucketOptions& options);

/// Returns a view of the part of `bucket` that starts at element `offset`. The
/// view has the shape of `parameter` (and its strides, if `parameter` is dense)
/// and can be used as the parameter's `.grad`.
at::Tensor view_of(
    const Bucket& bucket, std::int64_t offset, const at::Tensor& parameter);

}  // namespace accelerate
