// SPDX-License-Identifier: Apache-2.0
// Gradients that travel together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/group.h"

namespace accelerate {

/// Where the gradients of some parameters lie in one flat tensor.
struct Bucket {
  std::vector<std::size_t> members;   ///< indices of parameters
  std::vector<std::int64_t> offsets;  ///< of each member, in elements
  std::int64_t length = 0;            ///< elements, without the tail
  at::ScalarType type = at::kFloat;
  c10::Device device = c10::Device(c10::kCPU);

  at::Tensor flat;  ///< the sums, members and then the tail
  at::Tensor wire;  ///< what travels: `flat` itself, or a copy that is narrower
                    ///< or lies where the group's backend reaches it
};

struct BucketOptions {
  std::int64_t first_bytes = 1 << 20;
  std::int64_t bytes = 25 << 20;
  /// Type of the elements on the wire; left out: that of the parameters.
  std::optional<at::ScalarType> wire_type = std::nullopt;
};

/// Deals the parameters out to buckets in the given order, one type and one
/// device a bucket.
/// The first bucket is smaller, so that reducing begins soon.
std::vector<Bucket> plan_buckets(
    const std::vector<at::Tensor>& parameters,
    const std::vector<std::size_t>& order,
    const BucketOptions& options);

/// Gives the buckets memory, the last one with `tail` more elements in the
/// host's memory: a bucket of its own if the last is elsewhere, is not fp32 or
/// is narrowed on the wire.
///
/// Collective.
void allocate_buckets(
    std::vector<Bucket>& buckets,
    std::int64_t tail,
    const Group& group,
    const BucketOptions& options);

/// The part of a bucket that belongs to a member, shaped and strided like
/// `parameter`, usable as its `.grad`.
at::Tensor view_of(
    const Bucket& bucket, std::int64_t offset, const at::Tensor& parameter);

}  // namespace accelerate
