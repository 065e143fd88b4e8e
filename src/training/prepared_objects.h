// SPDX-License-Identifier: Apache-2.0
// The objects that the user passed to `prepare`.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/fwd.h"
#include "parallel/gradient_path.h"
#include "parallel/strategy.h"

namespace accelerate {

class DataLoaderBase;
class LRScheduler;
struct SchedulerContext;

/// A prepared model and its gradient path.
///
/// Programs usually create the Accelerator before the models, so the
/// Accelerator outlives the models. A module is therefore accessed only while
/// another owner keeps it alive. A module that no `shared_ptr` owns counts as
/// alive until `free_memory`.
struct PreparedModel {
  torch::nn::Module* module = nullptr;  ///< null after `prepare_parameters`
  std::optional<std::weak_ptr<torch::nn::Module>> holder;
  bool evaluation_mode = false;
  NamedTensors parameters;  ///< all parameters, each tensor once
  std::vector<bool> requires_grad;
  NamedTensors buffers;
  std::unique_ptr<GradientPath> path;  ///< null if no parameter is trained

  PreparedModel() = default;
  explicit PreparedModel(torch::nn::Module& module);

  /// Returns the module, or null if it no longer exists.
  torch::nn::Module* live_module() const {
    return holder && holder->expired() ? nullptr : module;
  }
  /// Returns the module's current parameters, or `parameters` if the module no
  /// longer exists.
  NamedTensors current_parameters() const;
  /// Returns the module's current buffers, or `buffers` if the module no longer
  /// exists.
  NamedTensors current_buffers() const;
};

/// Removes repeated parameters from the optimizer, because each would otherwise
/// be updated several times, and prints a warning. For example, the optimizer
/// may list a tied weight once for each of its names.
void remove_repeated_parameters(torch::optim::Optimizer& optimizer);

/// The models, optimizers, schedulers and data loaders of one Accelerator. The
/// user owns them and may destroy them at any time; destroyed objects are
/// removed from the lists.
///
/// Thread safety: use this object only from the thread that runs the training
/// loop.
class PreparedObjects {
 public:
  /// `strategy` must outlive this object.
  explicit PreparedObjects(Strategy& strategy) : strategy_(strategy) {}
  PreparedObjects(const PreparedObjects&) = delete;
  PreparedObjects& operator=(const PreparedObjects&) = delete;
  ~PreparedObjects();

  /// Makes the model equal on all ranks and gives its trainable parameters a
  /// gradient path. Replaces an earlier model with the same module. Collective.
  void add_model(PreparedModel model);
  /// Updates the gradient paths of models whose parameters were added, frozen
  /// or unfrozen since the last call. Collective if any model has changed.
  void refresh_models();
  const std::vector<PreparedModel>& models() const { return models_; }
  bool contains(const torch::nn::Module& module) const;
  /// Returns the models that have a gradient path.
  std::vector<const PreparedModel*> trained_models() const;
  /// Returns the trainable parameters of all models that have a gradient path.
  std::vector<at::Tensor> trained_parameters() const;

  void add_loader(DataLoaderBase& loader);
  std::vector<DataLoaderBase*> loaders();

  /// Adds an optimizer, or replaces the earlier optimizer of the same
  /// parameters.
  void add_optimizer(torch::optim::Optimizer& optimizer);
  std::vector<torch::optim::Optimizer*> optimizers();

  /// Adds a scheduler. `lifetime` must expire when the scheduler is destroyed.
  void add_scheduler(
      LRScheduler& scheduler,
      const std::shared_ptr<const SchedulerContext>& lifetime);
  std::vector<LRScheduler*> schedulers();

  void clear_models() { models_.clear(); }
  void clear();

 private:
  /// `lifetime` expires when the object is destroyed.
  struct PreparedLoader {
    DataLoaderBase* loader = nullptr;
    std::weak_ptr<const void> lifetime;
  };
  struct PreparedScheduler {
    LRScheduler* scheduler = nullptr;
    std::weak_ptr<const SchedulerContext> lifetime;
  };
  /// The optimizer counts as destroyed once one of its parameters is destroyed,
  /// or once another optimizer is prepared for the same parameters.
  struct PreparedOptimizer {
    torch::optim::Optimizer* optimizer = nullptr;
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> parameters;
  };

  void build_path(PreparedModel& model);
  /// Gives `model` a new path, which takes over the gradient sums of `old`.
  void replace_path(PreparedModel& model, std::unique_ptr<GradientPath> old);

  Strategy& strategy_;
  std::vector<PreparedModel> models_;
  std::vector<PreparedLoader> loaders_;
  std::vector<PreparedOptimizer> optimizers_;
  std::vector<PreparedScheduler> schedulers_;
};

}  // namespace accelerate
