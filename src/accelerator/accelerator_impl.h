// SPDX-License-Identifier: Apache-2.0
// The implementation of `Accelerator`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "accelerate/accelerator.h"
#include "accelerate/autocast.h"
#include "accelerate/autocast_module.h"
#include "accelerate/data_loader_base.h"
#include "accelerate/lr_scheduler.h"
#include "accelerator/accumulation.h"
#include "accelerator/checkpoint_manager.h"
#include "accelerator/loss_scaling.h"
#include "checkpoint/contents.h"
#include "parallel/gradient_path.h"
#include "parallel/reducer.h"
#include "state/gradient_state.h"

namespace accelerate {

/// A prepared model and the path that its gradients take.
///
/// Programs usually create the Accelerator before the models, so it outlives
/// them. A module is therefore accessed only while another owner keeps it
/// alive. A module that no `shared_ptr` owns counts as alive until
/// `free_memory`.
struct PreparedModel {
  torch::nn::Module* module = nullptr;  ///< null after `prepare_parameters`
  std::optional<std::weak_ptr<torch::nn::Module>> holder;
  bool evaluation_mode = false;
  NamedTensors parameters;  ///< all parameters, each tensor once
  std::vector<bool> requires_grad;
  NamedTensors buffers;
  std::unique_ptr<GradientPath> path;  ///< null if no parameter is trained

  /// The module, or null if it no longer exists.
  torch::nn::Module* live_module() const {
    return holder && holder->expired() ? nullptr : module;
  }
};

/// An optimizer that the user owns. The optimizer counts as destroyed once one
/// of its parameters is destroyed, or once another optimizer is prepared for
/// the same parameters.
struct PreparedOptimizer {
  torch::optim::Optimizer* optimizer = nullptr;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> parameters;
};

/// A scheduler that the user owns. `lifetime` expires when the scheduler is
/// destroyed.
struct PreparedScheduler {
  LRScheduler* scheduler = nullptr;
  std::weak_ptr<const SchedulerContext> lifetime;
};

/// A data loader that the user owns. `lifetime` expires when the loader is
/// destroyed.
struct PreparedLoader {
  DataLoaderBase* loader = nullptr;
  std::weak_ptr<const void> lifetime;
};

class Accelerator::Impl {
 public:
  Impl(PartialState state, const AcceleratorOptions& options);
  ~Impl();

  void add_model(PreparedModel model);
  /// Forgets all prepared objects and resets the counters. Keeps settings, open
  /// regions and checkpoint hooks.
  void forget_prepared();
  void add_loader(DataLoaderBase& loader);
  /// Returns the prepared loaders that still exist.
  std::vector<DataLoaderBase*> loaders();
  void add_optimizer(torch::optim::Optimizer& optimizer);
  std::vector<torch::optim::Optimizer*> optimizers();
  void add_scheduler(
      LRScheduler& scheduler,
      const std::shared_ptr<const SchedulerContext>& lifetime);
  std::vector<LRScheduler*> schedulers();
  void prepare_autocast(torch::nn::Module& module);
  void refresh_models();

  Sync next_sync();
  /// Returns how `model` synchronizes its gradients: as `sync` says, unless the
  /// model is in its own `no_sync` region.
  Sync sync_of(const PreparedModel& model, Sync sync) const;
  void backward(const at::Tensor& loss, const BackwardOptions& options);
  void broadcast_buffers();
  void join();

  /// Collects the state for a checkpoint. The result refers to the live
  /// tensors; it does not copy them.
  CheckpointContents collect();
  /// Collects only models, optimizers, accumulated gradient sums and buffers
  /// that differ between ranks.
  CheckpointContents collect_models();
  /// Collects only models and optimizers.
  CheckpointContents collect_large();
  /// Runs `collect` and the user's save hooks. If a registered object or a hook
  /// throws on any rank, all ranks throw. Collective.
  void collect_for_hooks(CheckpointContents& contents, const Destination& to);
  /// Returns one map of weights per model, for the user's hooks to change.
  std::vector<TensorMap> model_weights(
      const CheckpointContents& contents) const;
  /// Replaces the models' weights in `contents` with `weights`, which hooks
  /// have changed. Only rank 0 writes these weights, because hooks may differ
  /// between ranks.
  void take_hooked_weights(
      CheckpointContents& contents, std::vector<TensorMap> weights) const;
  /// Restores the state of the run from a verified checkpoint. Collective.
  LoadStateReport restore(
      LoadedCheckpoint loaded, const std::filesystem::path& path, bool strict);

  PartialState state;
  AcceleratorOptions options;
  DataLoaderConfiguration data;
  Precision precision = Precision::no;
  std::shared_ptr<GradientState> gradients = std::make_shared<GradientState>();
  Accumulation accumulation;
  /// Shared with the schedulers, which may outlive the Accelerator.
  std::shared_ptr<LossScaling> scaling;
  std::vector<PreparedModel> models;
  std::shared_ptr<CheckpointManager> checkpoints;
  std::int64_t updates = 0;  // finished optimizer updates

  int no_sync_depth = 0;
  int local_trainers = 0;  // number of active `LocalSGD` objects
  /// For each model in its own `no_sync` regions: how deeply they are nested.
  std::map<const torch::nn::Module*, int> local_models;
  bool sync_triggered = false;
  bool joining = false;
  std::int64_t join_steps = 0;
  bool triggered = false;
  bool warned_incomplete = false;
  bool warned_unsynchronized = false;

 private:
  class Restorer;

  void build_path(PreparedModel& model);
  std::vector<PreparedModel*> models_with_paths();
  void begin_paths(Sync sync);
  void run_engine(const at::Tensor& loss, const BackwardOptions& options);
  void finish_update(Sync sync);
  void reserve_checkpoint_memory();
  void check_thread() const;
  Sync local_sync() const;
  bool is_update(Sync sync) const;
  bool has_rank_buffers() const;
  /// Tells the other ranks whether this rank still trains. Returns whether any
  /// rank still trains. Collective.
  bool announce_joint_step(bool trains);
  void end_autocast();
  bool records_steps() const;
  /// Returns why steps are not captured. Empty if steps are captured, if
  /// capturing was not requested, on the CPU, and on ranks other than 0.
  std::string reason_not_recorded() const;
  std::shared_ptr<LossScaling> make_scaling() const;
  /// The parameters of all models that have a gradient path.
  std::vector<at::Tensor> trained_parameters() const;

  std::shared_ptr<Agreement> agreement_;
  std::vector<PreparedLoader> loaders_;
  std::vector<PreparedOptimizer> optimizers_;
  std::vector<PreparedScheduler> schedulers_;
  int buffer_source_ = 0;       // The rank whose buffers are broadcast.
  bool triggered_now_ = false;  // The current backward pass must sync.
  std::unique_ptr<AutocastGuard> thread_autocast_;
  std::thread::id thread_;
};

/// Converts a module's dictionary of tensors, in the same order.
NamedTensors named_tensors(
    const torch::OrderedDict<std::string, at::Tensor>& items);

/// Returns the parameters of a module with their names, each tensor once.
NamedTensors parameters_of(const torch::nn::Module& module);

}  // namespace accelerate
