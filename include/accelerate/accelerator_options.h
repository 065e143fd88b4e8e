// SPDX-License-Identifier: Apache-2.0
// How an Accelerator is set up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "accelerate/checkpoint.h"
#include "accelerate/data_loader_configuration.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/partial_state.h"
#include "accelerate/precision.h"
#include "accelerate/profiler.h"
#include "accelerate/rng_type.h"

namespace accelerate {

/// What the micro-batches of one update weigh.
enum class AccumulationWeighting {
  fixed,     ///< 1 / num_steps each, also in an incomplete last group
  group,     ///< 1 / micro-batches that the group really has
  weighted,  ///< the weight given to `accumulate`, over all processes
};

struct GradientAccumulationPlugin {
  std::int64_t num_steps = 1;
  /// Lets prepared schedulers count micro-steps that did not synchronise.
  bool adjust_scheduler = true;
  /// The last batch of a loader always completes an update.
  bool sync_with_dataloader = true;
  /// Reduces after every micro-batch; the optimizer still steps once per
  /// group.
  bool sync_each_batch = false;
  AccumulationWeighting weighting = AccumulationWeighting::fixed;
};

/// Narrower gradients on the wire.
enum class CommHook { no, fp16, bf16 };

struct DistributedDataParallelKwargs {
  /// Broadcasts the buffers of process 0 after each update.
  bool broadcast_buffers = true;
  double bucket_cap_mb = 25;
  CommHook comm_hook = CommHook::no;
};

/// Where autocast is on for prepared modules that do not know it themselves.
enum class AutocastScope {
  thread,  ///< from `prepare` on, in the thread that prepared
  manual,  ///< only inside `Accelerator::autocast()`
};

/// A field left out keeps the launcher's choice, or the default.
struct AcceleratorOptions {
  bool device_placement = true;
  std::optional<bool> split_batches = std::nullopt;
  std::optional<Precision> mixed_precision = std::nullopt;
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt;
  std::optional<bool> cpu = std::nullopt;
  /// Whether GPUs may round the factors of fp32 products to ten bits, which is
  /// several times faster; left out: as LibTorch does, for convolutions only.
  std::optional<bool> allow_tf32 = std::nullopt;
  /// Whether models of `transformers` that train on one GPU have it record
  /// forward and backward, once for each shape, and start the recording from
  /// then on: short steps are several times faster.
  bool record_steps = true;
  std::optional<DataLoaderConfiguration> dataloader_config = std::nullopt;
  std::optional<GradientAccumulationPlugin> gradient_accumulation_plugin =
      std::nullopt;
  /// Off: a prepared scheduler steps once per call, whatever happens.
  bool step_scheduler_with_optimizer = true;
  /// What one call of a prepared scheduler's `step` means.
  SchedulerUnit scheduler_unit = SchedulerUnit::per_process;
  /// Random numbers that get the state of process 0 when a loop over a prepared
  /// loader begins.
  std::vector<RngType> rng_types = {};
  AutocastScope autocast_scope = AutocastScope::thread;
  DistributedDataParallelKwargs ddp_kwargs = {};
  GradScalerKwargs scaler_kwargs = {};
  AutocastKwargs autocast_kwargs = {};
  InitProcessGroupKwargs init_process_group_kwargs = {};
  /// Where checkpoints go; `project_config` says more.
  std::optional<std::filesystem::path> project_dir = std::nullopt;
  std::optional<ProjectConfiguration> project_config = std::nullopt;
  /// What `profile()` records when it is not told otherwise.
  ProfileKwargs profile_kwargs = {};
};

struct PrepareModelOptions {
  /// Moves the model to the device; left out: as the Accelerator was told.
  std::optional<bool> device_placement = std::nullopt;
  /// Leaves gradients alone.
  bool evaluation_mode = false;
};

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
};

}  // namespace accelerate
