// SPDX-License-Identifier: Apache-2.0
// The settings of an Accelerator, from its options and the environment.
#pragma once

#include "accelerate/accelerator_options.h"
#include "config/environment.h"
#include "parallel/strategy.h"

namespace accelerate {

// These functions throw `ArgumentError` for options that contradict each other
// or are out of range.

GradientAccumulationPlugin chosen_accumulation(
    const AcceleratorOptions& options, const Environment& environment);
DataLoaderConfiguration chosen_data(const AcceleratorOptions& options);
BucketOptions chosen_buckets(const DistributedDataParallelKwargs& options);

/// Sets whether fp32 matmuls and convolutions may use TF32. Does nothing if
/// `allow` is empty.
void choose_tf32(std::optional<bool> allow);

}  // namespace accelerate
