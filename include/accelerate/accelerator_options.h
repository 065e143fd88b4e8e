// SPDX-License-Identifier: Apache-2.0
// Options for an Accelerator.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <c10/core/Device.h>

#include "accelerate/checkpoint.h"
#include "accelerate/data_loader_configuration.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/partial_state.h"
#include "accelerate/precision.h"
#include "accelerate/profiler.h"
#include "accelerate/rng_type.h"
#include "accelerate/tracker.h"

namespace accelerate {

/// How the micro-batches of one update (a micro-batch group) are weighted.
enum class AccumulationWeighting {
  fixed,  ///< 1 / `num_steps`, even in an incomplete micro-batch group
  group,  ///< 1 / number of micro-batches in the micro-batch group
  /// The weight passed to `accumulate`, divided by the sum of these weights
  /// over the micro-batch group and all processes.
  weighted,
};

/// Options for gradient accumulation.
struct GradientAccumulationPlugin {
  /// Number of micro-batches per update.
  std::int64_t num_steps = 1;
  /// Whether `LRScheduler::step_count` includes micro-steps that did not
  /// synchronize gradients.
  bool adjust_scheduler = true;
  /// Whether the last batch of a loader always completes an update, even after
  /// fewer than `num_steps` micro-batches.
  bool sync_with_dataloader = true;
  /// Whether to reduce gradients across processes after every micro-batch. The
  /// optimizer still steps only once per micro-batch group.
  bool sync_each_batch = false;
  AccumulationWeighting weighting = AccumulationWeighting::fixed;
};

/// The data type in which gradients are sent between processes; with `no`, the
/// type of the parameters.
enum class CommHook { no, fp16, bf16 };

/// Options for synchronizing gradients and buffers across processes.
struct DistributedDataParallelKwargs {
  /// Whether to copy the buffers of process 0 to all processes at the end of
  /// each backward pass that synchronizes gradients.
  bool broadcast_buffers = true;
  /// Size of the buckets in which gradients are reduced, in MiB.
  double bucket_cap_mb = 25;
  CommHook comm_hook = CommHook::no;
};

/// Where autocast is enabled for prepared modules that do not manage autocast
/// themselves.
enum class AutocastScope {
  thread,  ///< in the thread that called `prepare`, from then on
  manual,  ///< only inside `Accelerator::autocast()`
};

/// Options for an `Accelerator`. A field that is not set takes the value that
/// the launcher passed to the process, or else the default.
struct AcceleratorOptions {
  /// Whether models and batches are moved to the Accelerator's device.
  bool device_placement = true;
  std::optional<bool> split_batches = std::nullopt;
  std::optional<Precision> mixed_precision = std::nullopt;
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt;
  /// Whether to use the CPU even if there is an accelerator.
  std::optional<bool> cpu = std::nullopt;
  /// The device of this process, for example `torch::kXLA`. If not set, the
  /// environment variables and the hardware determine the device.
  std::optional<c10::Device> device = std::nullopt;
  /// Whether GPUs may use TF32, which rounds the inputs of fp32 matmuls to 10
  /// mantissa bits and is several times faster. Default: LibTorch's setting,
  /// which allows TF32 only for convolutions.
  std::optional<bool> allow_tf32 = std::nullopt;
  /// Whether models from `transformers` that train on one GPU capture their
  /// forward and backward passes as CUDA graphs, one graph per input shape, and
  /// replay the graphs. This makes short steps several times faster.
  bool record_steps = true;
  std::optional<DataLoaderConfiguration> dataloader_config = std::nullopt;
  std::optional<GradientAccumulationPlugin> gradient_accumulation_plugin =
      std::nullopt;
  /// If false, each call to `step` of a prepared scheduler advances the
  /// schedule by one step, whether or not the optimizer stepped.
  bool step_scheduler_with_optimizer = true;
  /// How many steps a prepared scheduler takes for each optimizer step.
  SchedulerUnit scheduler_unit = SchedulerUnit::per_process;
  /// Random number generators whose state is copied from process 0 when a loop
  /// over a prepared loader begins.
  std::vector<RngType> rng_types = {};
  AutocastScope autocast_scope = AutocastScope::thread;
  DistributedDataParallelKwargs ddp_kwargs = {};
  GradScalerKwargs scaler_kwargs = {};
  AutocastKwargs autocast_kwargs = {};
  InitProcessGroupKwargs init_process_group_kwargs = {};
  /// The folder for checkpoints; `project_config` has more options.
  std::optional<std::filesystem::path> project_dir = std::nullopt;
  std::optional<ProjectConfiguration> project_config = std::nullopt;
  /// The trackers that `init_trackers` starts, such as `"tensorboard"`; see
  /// tracker.h. If a tracker writes files, `project_config.logging_dir` or
  /// `project_dir` must be set.
  std::vector<LogWith> log_with = {};
  /// The default options for `profile()`.
  ProfileKwargs profile_kwargs = {};
};

struct PrepareModelOptions {
  /// Whether to move the model to the Accelerator's device. Default:
  /// `AcceleratorOptions::device_placement`.
  std::optional<bool> device_placement = std::nullopt;
  /// If true, the gradients of this model are not synchronized.
  bool evaluation_mode = false;
};

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
};

}  // namespace accelerate
