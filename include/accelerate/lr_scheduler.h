// SPDX-License-Identifier: Apache-2.0
// Learning rates that change with the steps, for any LibTorch optimizer.
//
//     accelerate::StepLR scheduler(optimizer, {.step_size = 30, .gamma = 0.1});
//     …
//     optimizer.step();
//     scheduler.step();
//
// Alone, a scheduler steps once per call. Once an Accelerator has prepared it,
// a call follows the optimizer: nothing between synchronising steps, nothing
// when the optimizer skipped, otherwise as many steps as `SchedulerUnit` says.
// Where only a GPU knows whether it skipped (fp16), the rate is chosen there
// and nobody waits, unless the scheduler is asked for its position or rates.
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

/// What one call of a prepared scheduler's `step` means.
enum class SchedulerUnit {
  /// One step per process, so that a schedule written for the steps of one
  /// process ends after the same number of samples. Once with `split_batches`.
  per_process,
  /// One step per optimizer step, however many processes there are.
  per_optimizer_step,
};

struct SchedulerContext;
class PendingSteps;

/// Base class of schedulers. Sets the learning rate of each parameter group.
///
/// A subclass implements `get_lr` and calls `initial_step` at the end of its
/// constructor. The optimizer must outlive the scheduler.
///
/// Thread safety: one thread at a time.
class ACCELERATE_API LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler();

  /// Moves on, by the rules at the top of this file.
  virtual void step();

  /// The learning rate of each parameter group at position `last_epoch()`.
  virtual std::vector<double> get_lr() const = 0;
  /// The learning rates that the last step set.
  const std::vector<double>& get_last_lr() const;
  /// Prints the learning rates to stdout, a line for each group.
  void print_lr() const;

  /// Steps taken since the start.
  std::int64_t last_epoch() const;
  /// Calls that counted, the initial one included; ahead of `last_epoch` when
  /// a prepared scheduler counts the micro-steps of an accumulation.
  std::int64_t step_count() const;
  /// The learning rates of the groups when the scheduler was made.
  const std::vector<double>& base_lrs() const { return base_lrs_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }

  /// Everything that changes. `load_state_dict` sets the learning rates too.
  /// It throws `FormatError` when a key is missing or of another type, or when
  /// the number of groups differs.
  virtual Json state_dict() const;
  virtual void load_state_dict(const Json& state);

  /// Follow an Accelerator's steps; null makes it a plain scheduler again.
  void attach(std::shared_ptr<const SchedulerContext> context);
  bool is_attached() const { return context_ != nullptr; }

  /// Until then the groups' `lr` is that of a run without skipped steps. Waits
  /// for what a GPU has not told yet; `state_dict` and the questions above do
  /// it too.
  void settle() const;

 protected:
  explicit LRScheduler(torch::optim::Optimizer& optimizer);

  /// Sets the learning rates of position 0.
  void initial_step();
  /// One step, whatever the Accelerator says.
  virtual void advance();
  /// The end of a schedule that must not be stepped past it.
  virtual std::optional<std::int64_t> total_steps() const;
  /// Whether `get_lr` depends on `last_epoch_` alone and `advance` is the base
  /// class': only then can steps be taken back, so that nobody has to wait.
  virtual bool follows_position() const { return false; }
  void set_lr(const std::vector<double>& rates);
  /// The learning rates of the optimizer now.
  std::vector<double> current_lr() const;

  // As if all pending steps counted; `settle` makes them what they are.
  mutable std::int64_t last_epoch_ = -1;
  mutable std::int64_t step_count_ = 0;
  std::vector<double> base_lrs_;
  mutable std::vector<double> last_lr_;

 private:
  bool step_later();
  void take_oldest() const;
  std::vector<double> rates_at(std::int64_t position) const;

  torch::optim::Optimizer* optimizer_;
  std::shared_ptr<const SchedulerContext> context_;
  std::unique_ptr<PendingSteps> pending_;
};

/// The initial learning rate times a function of the position.
///
///     LambdaLR scheduler(optimizer, [](auto step) { return 1.0 / (1 + step);
///     });
///
/// The functions are not part of the state.
class ACCELERATE_API LambdaLR : public LRScheduler {
 public:
  using Lambda = std::function<double(std::int64_t)>;
  LambdaLR(torch::optim::Optimizer& optimizer, const Lambda& lambda);
  /// One for each group; `ArgumentError` when there are not as many.
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
  /// One value, or one for each group.
  std::vector<double> max_lr = {};
  std::int64_t total_steps = 0;
  /// Share of the steps in which the learning rate rises.
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  /// Moves the momentum (Adam's first beta) against the learning rate.
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  /// Initial learning rate: `max_lr / div_factor`.
  double div_factor = 25.0;
  /// Last learning rate: the initial one `/ final_div_factor`.
  double final_div_factor = 1e4;
  bool three_phase = false;
};

/// One rise to `max_lr` and one fall to almost nothing.
///
/// A step past `total_steps` is a `StateError`; a prepared one stops there.
class ACCELERATE_API OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(
      torch::optim::Optimizer& optimizer, const OneCycleLROptions& options);

  std::vector<double> get_lr() const override;
  /// The momentum at position `last_epoch()`.
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
  /// So many calls without improvement are waited for.
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  /// Calls after a reduction in which nothing is counted.
  std::int64_t cooldown = 0;
  /// One value, or one for each group.
  std::vector<double> min_lr = {0.0};
  /// Smaller changes are not made.
  double eps = 1e-8;
};

/// Reduces the learning rate when a metric stops improving. Each call is
/// exactly one step, prepared or not: the metric is the same on any number of
/// processes.
class ACCELERATE_API ReduceLROnPlateau : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(
      torch::optim::Optimizer& optimizer,
      const ReduceLROnPlateauOptions& options = {});

  void step(double metric);
  /// Throws `StateError`: it needs the metric.
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

/// A scheduler of LibTorch as one of ours; made by `adapt`.
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

/// Makes a scheduler of LibTorch, over that optimizer, one that `prepare`
/// takes. Call the result's `step` from then on. Both must outlive it.
[[nodiscard]] ACCELERATE_API AdaptedScheduler
adapt(torch::optim::LRScheduler& scheduler, torch::optim::Optimizer& optimizer);

}  // namespace accelerate
