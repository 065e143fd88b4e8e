// SPDX-License-Identifier: Apache-2.0
// The optimizer and the learning-rate schedules for fine-tuning.
//
//     transformers::AdamW optimizer(model->parameters(), 3e-5);
//     auto lr_scheduler = transformers::get_scheduler(
//         "linear", optimizer,
//         {.num_warmup_steps = 100, .num_training_steps = 3000});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "transformers/export.h"

namespace transformers {

using accelerate::AdamW;
using accelerate::AdamWOptions;

/// Options for `GreedyLR`.
struct GreedyLROptions {
  using Mode = accelerate::ReduceLROnPlateauOptions::Mode;
  using ThresholdMode = accelerate::ReduceLROnPlateauOptions::ThresholdMode;
  /// Whether a smaller or a larger metric is better.
  Mode mode = Mode::min;
  /// The factor below 1 by which the learning rate is divided when the metric
  /// improves, and multiplied when the metric does not improve.
  double factor = 0.95;
  /// Number of consecutive calls to `step` with (or without) improvement that
  /// are tolerated before the learning rate changes.
  std::int64_t patience = 10;
  double threshold = 1e-6;
  ThresholdMode threshold_mode = ThresholdMode::abs;
  /// Number of calls to `step` that are ignored after each change of the
  /// learning rate.
  std::int64_t cooldown = 0;
  std::int64_t warmup = 0;
  /// The lowest and the highest learning rate: one value, or one for each
  /// parameter group.
  std::vector<double> min_lr = {1e-3};
  std::vector<double> max_lr = {1.0};
  /// A change of the learning rate by this amount or less is not applied.
  double eps = 1e-8;
  /// Whether to use the average of the last `window_size` metrics.
  bool smooth = false;
  std::int64_t window_size = 50;
  /// Number of reductions at the lowest learning rate after which the schedule
  /// starts again with the initial learning rate.
  std::int64_t reset_start = 500;
};

/// Raises the learning rate while a metric improves, and lowers it while the
/// metric does not. Each call to `step` counts as exactly one step, even after
/// `prepare`, because the metric does not depend on the number of processes.
class TRANSFORMERS_API GreedyLR : public accelerate::LRScheduler {
 public:
  explicit GreedyLR(
      torch::optim::Optimizer& optimizer, const GreedyLROptions& options = {});

  void step(double metric);
  /// Throws `StateError`, because the metric is missing.
  void step() override;

  std::vector<double> get_lr() const override;
  accelerate::Json state_dict() const override;
  void load_state_dict(const accelerate::Json& state) override;

 private:
  double smoothed(double metric);
  bool is_better(double metric) const;
  void count(double metric);
  void increase_lr();
  void reduce_lr();
  void reset();

  GreedyLROptions options_;
  double best_;
  std::int64_t num_good_epochs_ = 0;
  std::int64_t num_bad_epochs_ = 0;
  std::int64_t cooldown_counter_ = 0;
  std::int64_t warmup_counter_ = 0;
  std::int64_t reset_start_;  // Reductions left until `reset`.
  std::vector<double> window_;
  double window_sum_ = 0;
};

/// Options for a schedule. Every schedule accepts `num_warmup_steps` and
/// `num_training_steps`, even if it does not use them, so that a program can
/// select the schedule by name at run time. Every other option is accepted only
/// by the schedules that use it.
struct SchedulerOptions {
  /// Number of warm-up steps, during which the learning rate rises to the
  /// optimizer's learning rate.
  std::optional<std::int64_t> num_warmup_steps = std::nullopt;
  /// Total number of steps, including the warm-up.
  std::optional<std::int64_t> num_training_steps = std::nullopt;

  /// cosine, cosine_with_min_lr, cosine_warmup_with_min_lr and
  /// warmup_stable_decay: the number of cosine waves. Default: 0.5.
  /// cosine_with_restarts: the number of decays to 0. Default: 1.
  std::optional<double> num_cycles = std::nullopt;
  /// polynomial: the exponent. Default: 1.
  std::optional<double> power = std::nullopt;
  /// polynomial: the final learning rate. Default: 1e-7.
  std::optional<double> lr_end = std::nullopt;
  /// cosine_with_min_lr, cosine_warmup_with_min_lr: the final learning rate.
  /// Set either `min_lr` or `min_lr_rate`.
  std::optional<double> min_lr = std::nullopt;
  /// cosine_with_min_lr, cosine_warmup_with_min_lr: the final learning rate, as
  /// a fraction of the optimizer's learning rate. Set either `min_lr_rate` or
  /// `min_lr`.
  std::optional<double> min_lr_rate = std::nullopt;
  /// cosine_warmup_with_min_lr: the learning rate at the first step, as a
  /// fraction of the optimizer's learning rate. Default:
  /// `1 / num_warmup_steps`.
  std::optional<double> warmup_lr_rate = std::nullopt;
  /// inverse_sqrt: the time scale of the decay, in steps. Default:
  /// `num_warmup_steps`, or 10 000 without warm-up.
  std::optional<std::int64_t> timescale = std::nullopt;
  /// warmup_stable_decay: the number of decay steps (required).
  std::optional<std::int64_t> num_decay_steps = std::nullopt;
  /// warmup_stable_decay: the number of steps at the optimizer's learning rate.
  /// Default: `num_training_steps` minus the warm-up and decay steps.
  std::optional<std::int64_t> num_stable_steps = std::nullopt;
  /// warmup_stable_decay: the shape of the warm-up, "linear", "cosine" or
  /// "1-sqrt". Default: "linear".
  std::optional<std::string> warmup_type = std::nullopt;
  /// warmup_stable_decay: the shape of the decay, "linear", "cosine" or
  /// "1-sqrt". Default: "cosine".
  std::optional<std::string> decay_type = std::nullopt;
  /// warmup_stable_decay: the learning rate at the start of the warm-up and
  /// after the decay, as a fraction of the optimizer's learning rate. Default:
  /// 0.
  std::optional<double> min_lr_ratio = std::nullopt;
  /// reduce_lr_on_plateau: the options for `ReduceLROnPlateau`.
  std::optional<accelerate::ReduceLROnPlateauOptions> plateau = std::nullopt;
  /// greedy: the options for `GreedyLR`.
  std::optional<GreedyLROptions> greedy = std::nullopt;
};

/// A learning-rate schedule, created by `get_scheduler`.
class TRANSFORMERS_API Scheduler : public accelerate::LRScheduler {
 public:
  /// A function that returns the learning rate at a step, as a fraction of the
  /// initial learning rate.
  using Factor = std::function<double(std::int64_t)>;

  Scheduler(torch::optim::Optimizer& optimizer, Factor factor);
  Scheduler(
      torch::optim::Optimizer& optimizer,
      const accelerate::ReduceLROnPlateauOptions& options);
  Scheduler(torch::optim::Optimizer& optimizer, const GreedyLROptions& options);
  ~Scheduler() override;

  /// Same as `LRScheduler::step`, but throws `StateError` for the schedules
  /// "reduce_lr_on_plateau" and "greedy", which need a metric.
  void step() override;
  /// Takes one step of the schedule "reduce_lr_on_plateau" or "greedy". Throws
  /// `StateError` for all other schedules.
  void step(double metric);

  std::vector<double> get_lr() const override;
  accelerate::Json state_dict() const override;
  void load_state_dict(const accelerate::Json& state) override;

 protected:
  bool follows_position() const override { return by_metric() == nullptr; }

 private:
  /// Returns `plateau_` or `greedy_`, the schedules that need a metric; null if
  /// neither is set.
  accelerate::LRScheduler* by_metric() const;
  void follow_metric();

  Factor factor_;
  std::unique_ptr<accelerate::ReduceLROnPlateau> plateau_;
  std::unique_ptr<GreedyLR> greedy_;
};

/// Creates the schedule with this name: linear, cosine, cosine_with_restarts,
/// polynomial, constant, constant_with_warmup, inverse_sqrt,
/// reduce_lr_on_plateau, cosine_with_min_lr, cosine_warmup_with_min_lr,
/// warmup_stable_decay or greedy.
///
/// Throws `ArgumentError` for an unknown name, for an option that is missing or
/// out of range, and for an option that the schedule does not use.
[[nodiscard]] TRANSFORMERS_API Scheduler get_scheduler(
    std::string_view name,
    torch::optim::Optimizer& optimizer,
    const SchedulerOptions& options = {});

/// Returns the names that `get_scheduler` accepts.
[[nodiscard]] TRANSFORMERS_API std::vector<std::string> scheduler_names();

}  // namespace transformers
