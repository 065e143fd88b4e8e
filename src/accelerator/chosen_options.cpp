// SPDX-License-Identifier: Apache-2.0
#include "accelerator/chosen_options.h"

#include <algorithm>
#include <cmath>

#include <ATen/Context.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

std::optional<at::ScalarType> wire_type(CommHook hook) {
  switch (hook) {
    case CommHook::no:
      return std::nullopt;
    case CommHook::fp16:
      return at::kHalf;
    case CommHook::bf16:
      return at::kBFloat16;
  }
  throw InternalError("unknown communication hook");
}

}  // namespace

GradientAccumulationPlugin chosen_accumulation(
    const AcceleratorOptions& options, const Environment& environment) {
  if (options.gradient_accumulation_plugin) {
    if (options.gradient_accumulation_steps) {
      throw ArgumentError(
          "`gradient_accumulation_steps` and `gradient_accumulation_plugin` "
          "are both set",
          "set only the plugin's `num_steps`");
    }
    return *options.gradient_accumulation_plugin;
  }
  GradientAccumulationPlugin plugin;
  plugin.num_steps = options.gradient_accumulation_steps.value_or(
      environment.get_integer("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", 1)
          .value_or(1));
  return plugin;
}

DataLoaderConfiguration chosen_data(const AcceleratorOptions& options) {
  DataLoaderConfiguration data =
      options.dataloader_config.value_or(DataLoaderConfiguration{});
  if (options.split_batches) {
    if (options.dataloader_config &&
        data.split_batches != *options.split_batches) {
      throw ArgumentError(
          str_cat(
              "`split_batches` is ",
              *options.split_batches ? "true" : "false",
              ", but `dataloader_config.split_batches` is ",
              data.split_batches ? "true" : "false"),
          "set `split_batches` only in `dataloader_config`");
    }
    data.split_batches = *options.split_batches;
  }
  return data;
}

BucketOptions chosen_buckets(const DistributedDataParallelKwargs& options) {
  const double cap = options.bucket_cap_mb;
  if (!(cap > 0 && std::isfinite(cap))) {
    throw ArgumentError(
        str_cat("`bucket_cap_mb` is ", cap), "pass a finite number above 0");
  }
  BucketOptions buckets;
  buckets.bytes = static_cast<std::int64_t>(cap * (1 << 20));
  buckets.first_bytes = std::min(buckets.first_bytes, buckets.bytes);
  buckets.wire_type = wire_type(options.comm_hook);
  return buckets;
}

void choose_tf32(std::optional<bool> allow) {
  if (allow) {
    at::globalContext().setAllowTF32CuBLAS(*allow);
    at::globalContext().setAllowTF32CuDNN(*allow);
  }
}

}  // namespace accelerate
