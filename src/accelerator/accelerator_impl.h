// SPDX-License-Identifier: Apache-2.0
// The state behind an `Accelerator`.
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
#include "accelerator/checkpointing.h"
#include "accelerator/loss_scaling.h"
#include "checkpoint/contents.h"
#include "parallel/gradient_path.h"
#include "parallel/reducer.h"
#include "state/gradient_state.h"

namespace accelerate {

/// A model and what happens to its gradients.
///
/// Programs make the Accelerator first, so it outlives its models: a module is
/// looked at only while somebody else still holds it. One that is not held by
/// a `shared_ptr` counts as held until `free_memory`.
struct PreparedModel {
  torch::nn::Module* module = nullptr;  ///< null: from `prepare_parameters`
  std::optional<std::weak_ptr<torch::nn::Module>> holder;
  bool evaluation_mode = false;
  NamedTensors parameters;  ///< all of them, each once
  std::vector<bool> trains;
  NamedTensors buffers;
  std::unique_ptr<GradientPath> path;  ///< null if nothing trains

  /// The module, or null if there is none any more.
  torch::nn::Module* living_module() const {
    return holder && holder->expired() ? nullptr : module;
  }
};

/// An optimizer that somebody else owns. It counts as gone when its parameters
/// are, or when another one was prepared over the same.
struct PreparedOptimizer {
  torch::optim::Optimizer* optimizer = nullptr;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> parameters;
};

/// A scheduler that somebody else owns, with what only it keeps alive.
struct PreparedScheduler {
  LRScheduler* scheduler = nullptr;
  std::weak_ptr<const SchedulerContext> lifetime;
};

/// A loader that somebody else owns.
struct PreparedLoader {
  DataLoaderBase* loader = nullptr;
  std::weak_ptr<const void> lifetime;
};

class Accelerator::Impl {
 public:
  Impl(PartialState state, const AcceleratorOptions& options);
  ~Impl();

  void add_model(PreparedModel model);
  /// As if nothing had ever been prepared.
  void forget_prepared();
  void add_loader(DataLoaderBase& loader);
  /// Those that still exist.
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
  /// What `sync` means for one model: it may be local by itself.
  Sync sync_of(const PreparedModel& model, Sync sync) const;
  void backward(const at::Tensor& loss, const BackwardOptions& options);
  void broadcast_buffers();
  void join();

  /// What a checkpoint keeps. Tensors are those in use, not copies.
  CheckpointContents collect();
  /// Of that the models and the optimizers, which are nearly all, and the
  /// sums of an accumulation; `collect_large` does without those.
  CheckpointContents collect_models();
  CheckpointContents collect_large();
  /// `collect`, and what the user's hooks make of it, all ranks together: when
  /// an object or a hook throws on one, all throw. Collective.
  void collect_for_hooks(CheckpointContents& contents, const Destination& to);
  /// The weights of each model, which hooks may change.
  std::vector<TensorMap> model_weights(
      const CheckpointContents& contents) const;
  /// Those of process 0 are saved: a hook may have changed them there alone.
  void take_hooked_weights(
      CheckpointContents& contents, std::vector<TensorMap> weights) const;
  /// Goes back to a verified checkpoint. Collective.
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
  std::shared_ptr<Checkpointing> checkpoints;
  std::int64_t updates = 0;  // finished

  int no_sync_depth = 0;
  int trains_locally = 0;  // how many `LocalSGD`s are at work
  /// Models that are in a `no_sync` of their own, and how deep.
  std::map<const torch::nn::Module*, int> local_models;
  bool sync_triggered = false;
  bool joining = false;
  std::int64_t join_steps = 0;
  bool triggered = false;
  bool said_incomplete = false;
  bool said_apart = false;

 private:
  class Restorer;

  void build_path(PreparedModel& model);
  std::vector<PreparedModel*> models_with_paths();
  void begin_paths(Sync sync);
  void run_engine(const at::Tensor& loss, const BackwardOptions& options);
  void finish_update(Sync sync);
  void get_checkpoint_memory();
  void check_thread() const;
  Sync local_sync() const;
  bool is_update(Sync sync) const;
  bool has_own_buffers() const;
  /// Whether any rank trains on. Collective.
  bool announce_joint_step(bool trains);
  void end_autocast();
  bool records_steps() const;
  /// Empty where it does, or was not asked to.
  std::string why_not_recorded() const;
  std::shared_ptr<LossScaling> make_scaling() const;
  /// Those with a gradient path, of all models.
  std::vector<at::Tensor> trained_parameters() const;

  std::shared_ptr<Agreement> agreement_;
  std::vector<PreparedLoader> loaders_;
  std::vector<PreparedOptimizer> optimizers_;
  std::vector<PreparedScheduler> schedulers_;
  int buffer_source_ = 0;       // The rank whose buffers count.
  bool triggered_now_ = false;  // The backward under way was told to sync.
  std::unique_ptr<AutocastGuard> thread_autocast_;
  std::thread::id thread_;
};

/// What a module says it has, in its order.
NamedTensors named_tensors(
    const torch::OrderedDict<std::string, at::Tensor>& items);

/// Parameters of a module with their names, each tensor once.
NamedTensors parameters_of(const torch::nn::Module& module);

}  // namespace accelerate
