// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedulers for any LibTorch optimizer.
//
//     accelerate::StepLR scheduler(optimizer, {.step_size = 30, .gamma = 0.1});
//     …
//     optimizer.step();
//     scheduler.step();
//
// Without `prepare`, each call to `step` takes one step. After `prepare`,
// `step` does nothing while gradients accumulate or when the optimizer skipped
// its step; otherwise it takes the number of steps that `SchedulerUnit`
// defines. With fp16, the CPU does not know whether a step was skipped unless
// it waits for the GPU. The learning rate is therefore selected on the GPU, and
// the program waits only when it reads the scheduler's position or learning
// rates.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"

namespace torch::optim {
class LRScheduler;
}

namespace accelerate {

/// How many steps a prepared scheduler takes for each optimizer step.
enum class SchedulerUnit {
  /// As many steps as there are processes (with XLA, devices), so that a
  /// schedule written for one process ends after the same number of samples.
  /// With `split_batches`, only one step.
  per_process,
  /// One step, regardless of the number of processes.
  per_optimizer_step,
};

struct SchedulerContext;
class PendingSteps;

/// Base class of schedulers. Sets the learning rate of each parameter group.
///
/// A subclass implements `get_lr` and calls `initial_step` at the end of its
/// constructor. The optimizer must outlive the scheduler.
///
/// Thread safety: use a scheduler from only one thread at a time.
class ACCELERATE_API LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler();

  /// Advances the schedule by one step. After `prepare`, does nothing while
  /// gradients accumulate or when the optimizer skipped its step; otherwise
  /// takes the number of steps that `SchedulerUnit` defines.
  virtual void step();

  /// Computes the learning rate of each parameter group at the position
  /// `last_epoch()`.
  virtual std::vector<double> get_lr() const = 0;
  /// Returns the learning rates that the last step set.
  const std::vector<double>& get_last_lr() const;
  /// Prints the learning rates to stdout, one line per parameter group.
  void print_lr() const;

  /// Returns the position: the number of steps taken.
  std::int64_t last_epoch() const;
  /// Returns the number of steps taken, including the initial step. With
  /// `GradientAccumulationPlugin::adjust_scheduler`, a prepared scheduler also
  /// counts the micro-steps that did not synchronize gradients.
  std::int64_t step_count() const;
  /// Returns the initial learning rate of each parameter group.
  const std::vector<double>& base_lrs() const { return base_lrs_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }

  /// Return and load the state. Loading also sets the learning rates.
  /// `load_state_dict` throws `FormatError` when a key is missing or has the
  /// wrong type, or when the number of parameter groups differs.
  virtual Json state_dict() const;
  virtual void load_state_dict(const Json& state);

  /// Makes the scheduler follow an Accelerator's steps. A null `context`
  /// detaches the scheduler from the Accelerator.
  void attach(std::shared_ptr<const SchedulerContext> context);
  bool is_attached() const { return context_ != nullptr; }

  /// Waits until the GPU has reported which pending steps were skipped, and
  /// corrects the `lr` of the parameter groups. Until then, `lr` assumes that
  /// no pending step was skipped. The functions that return the position, the
  /// learning rates or the state call this function.
  void resolve_pending_steps() const;

 protected:
  explicit LRScheduler(torch::optim::Optimizer& optimizer);

  /// Sets the learning rates for position 0.
  void initial_step();
  /// Takes one step, regardless of the Accelerator.
  virtual void advance();
  /// Returns the number of steps after which the schedule ends; empty if the
  /// schedule never ends.
  virtual std::optional<std::int64_t> total_steps() const;
  /// Returns whether `get_lr` depends only on `last_epoch_`, and a step changes
  /// only the position and the learning rates. Only then can a step be undone,
  /// so that `step` does not need to wait for the GPU.
  virtual bool follows_position() const { return false; }
  void set_lr(const std::vector<double>& rates);
  /// Returns the optimizer's current learning rates.
  std::vector<double> current_lr() const;

  // The mutable members assume that no pending step was skipped;
  // `resolve_pending_steps` corrects them.
  mutable std::int64_t last_epoch_ = -1;
  mutable std::int64_t step_count_ = 0;
  std::vector<double> base_lrs_;
  mutable std::vector<double> last_lr_;

 private:
  bool defer_step();
  void resolve_oldest_step() const;
  std::vector<double> rates_at(std::int64_t position) const;

  torch::optim::Optimizer* optimizer_;
  std::shared_ptr<const SchedulerContext> context_;
  std::unique_ptr<PendingSteps> pending_;
};

/// Sets the learning rate to its initial value times a function of the
/// position.
///
///     LambdaLR scheduler(
///         optimizer, [](auto step) { return 1.0 / (1 + step); });
///
/// `state_dict` does not include the functions.
class ACCELERATE_API LambdaLR : public LRScheduler {
 public:
  using Lambda = std::function<double(std::int64_t)>;
  LambdaLR(torch::optim::Optimizer& optimizer, const Lambda& lambda);
  /// Takes one function for each parameter group. Throws `ArgumentError` for
  /// any other number of functions.
  LambdaLR(torch::optim::Optimizer& optimizer, std::vector<Lambda> lambdas);

  std::vector<double> get_lr() const override;

 protected:
  bool follows_position() const override { return true; }

 private:
  std::vector<Lambda> lambdas_;
};

struct StepLROptions {
  std::int64_t step_size = 1;
  double gamma = 0.1;
};

/// Multiplies the learning rate by `gamma` every `step_size` steps.
class ACCELERATE_API StepLR : public LRScheduler {
 public:
  StepLR(torch::optim::Optimizer& optimizer, const StepLROptions& options);

  std::vector<double> get_lr() const override;

 protected:
  bool follows_position() const override { return true; }

 private:
  StepLROptions options_;
};

enum class AnnealStrategy { cos, linear };

struct OneCycleLROptions {
  /// The highest learning rate: one value, or one for each parameter group.
  std::vector<double> max_lr = {};
  std::int64_t total_steps = 0;
  /// Fraction of the steps during which the learning rate rises.
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  /// Whether to vary the momentum (for Adam, the first beta) inversely to the
  /// learning rate.
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  /// Initial learning rate: `max_lr / div_factor`.
  double div_factor = 25.0;
  /// Final learning rate: the initial learning rate divided by this factor.
  double final_div_factor = 1e4;
  /// Whether the learning rate falls in two phases: first to its initial value,
  /// then to its final value.
  bool three_phase = false;
};

/// Raises the learning rate to `max_lr` and then lowers it to almost 0.
///
/// A step after `total_steps` throws `StateError`; a prepared scheduler stops
/// at `total_steps` instead.
class ACCELERATE_API OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(
      torch::optim::Optimizer& optimizer, const OneCycleLROptions& options);

  std::vector<double> get_lr() const override;
  /// Computes the momentum at the position `last_epoch()`.
  double get_momentum() const;

 protected:
  void advance() override;
  std::optional<std::int64_t> total_steps() const override;
  bool follows_position() const override { return !options_.cycle_momentum; }

 private:
  double at_position(double low, double high, double last) const;

  OneCycleLROptions options_;
};

struct ReduceLROnPlateauOptions {
  enum class Mode { min, max };
  enum class ThresholdMode { rel, abs };
  /// Whether a smaller or a larger metric is better.
  Mode mode = Mode::min;
  double factor = 0.1;
  /// Number of calls to `step` without improvement that are tolerated before
  /// the learning rate is reduced.
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  /// Number of calls to `step` after a reduction that do not count against
  /// `patience`.
  std::int64_t cooldown = 0;
  /// The lowest learning rate: one value, or one for each parameter group.
  std::vector<double> min_lr = {0.0};
  /// A reduction of the learning rate by this amount or less is not applied.
  double eps = 1e-8;
};

/// Reduces the learning rate when a metric stops improving. Each call to `step`
/// counts as exactly one step, even after `prepare`, because the metric does
/// not depend on the number of processes.
class ACCELERATE_API ReduceLROnPlateau : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(
      torch::optim::Optimizer& optimizer,
      const ReduceLROnPlateauOptions& options = {});

  void step(double metric);
  /// Throws `StateError`, because the metric is missing.
  void step() override;

  std::vector<double> get_lr() const override;
  double best() const { return best_; }
  std::int64_t num_bad_epochs() const { return num_bad_epochs_; }
  Json state_dict() const override;
  void load_state_dict(const Json& state) override;

 private:
  bool is_better(double metric) const;
  void reduce_lr();

  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t num_bad_epochs_ = 0;
  std::int64_t cooldown_counter_ = 0;
};

/// Wraps a LibTorch scheduler for use with `prepare`; made by `adapt`.
class ACCELERATE_API AdaptedScheduler : public LRScheduler {
 public:
  AdaptedScheduler(
      torch::optim::LRScheduler& scheduler, torch::optim::Optimizer& optimizer);

  std::vector<double> get_lr() const override;
  Json state_dict() const override;
  void load_state_dict(const Json& state) override;

 protected:
  void advance() override;

 private:
  torch::optim::LRScheduler* scheduler_;
};

/// Wraps a LibTorch scheduler for `optimizer` so that `prepare` accepts it.
/// Afterwards, call `step` on the result, not on `scheduler`. Both arguments
/// must outlive the result.
[[nodiscard]] ACCELERATE_API AdaptedScheduler
adapt(torch::optim::LRScheduler& scheduler, torch::optim::Optimizer& optimizer);

}  // namespace accelerate
