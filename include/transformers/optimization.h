// SPDX-License-Identifier: Apache-2.0
// The optimizer and the learning-rate schedules of a fine-tuning script.
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

/// How a schedule is shaped. The first two may be given for every schedule,
/// so that a program can leave its name to a flag; the others only to those
/// that use them.
struct SchedulerOptions {
  /// Steps in which the learning rate rises from 0.
  std::optional<std::int64_t> num_warmup_steps = std::nullopt;
  /// Steps in all, warm-up included.
  std::optional<std::int64_t> num_training_steps = std::nullopt;

  /// The cosines and warmup_stable_decay: waves, half a one unless told.
  /// cosine_with_restarts: falls to 0, one unless told.
  std::optional<double> num_cycles = std::nullopt;
  /// polynomial: 1 unless told.
  std::optional<double> power = std::nullopt;
  /// polynomial: the last learning rate, 1e-7 unless told.
  std::optional<double> lr_end = std::nullopt;
  /// cosine_with_min_lr, cosine_warmup_with_min_lr: the last learning rate, as
  /// itself or as a share of the first; one of the two is needed.
  std::optional<double> min_lr = std::nullopt;
  std::optional<double> min_lr_rate = std::nullopt;
  /// cosine_warmup_with_min_lr: the first learning rate as a share of the
  /// highest; one step's worth unless told.
  std::optional<double> warmup_lr_rate = std::nullopt;
  /// inverse_sqrt: the number of warm-up steps, or 10 000 without warm-up.
  std::optional<std::int64_t> timescale = std::nullopt;
  /// warmup_stable_decay: the decay is needed; the stable part is what is left
  /// of `num_training_steps` unless told.
  std::optional<std::int64_t> num_decay_steps = std::nullopt;
  std::optional<std::int64_t> num_stable_steps = std::nullopt;
  /// warmup_stable_decay: "linear" (the warm-up unless told), "cosine" (the
  /// decay unless told) or "1-sqrt".
  std::optional<std::string> warmup_type = std::nullopt;
  std::optional<std::string> decay_type = std::nullopt;
  /// warmup_stable_decay: the last learning rate as a share of the first.
  std::optional<double> min_lr_ratio = std::nullopt;
  /// reduce_lr_on_plateau: see there.
  std::optional<accelerate::ReduceLROnPlateauOptions> plateau = std::nullopt;
};

/// One of the schedules by name; made by `get_scheduler`.
class TRANSFORMERS_API Scheduler : public accelerate::LRScheduler {
 public:
  /// The share of the initial learning rate at a position.
  using Factor = std::function<double(std::int64_t)>;

  Scheduler(torch::optim::Optimizer& optimizer, Factor factor);
  Scheduler(
      torch::optim::Optimizer& optimizer,
      const accelerate::ReduceLROnPlateauOptions& options);
  ~Scheduler() override;

  /// Throws `StateError` for "reduce_lr_on_plateau", which needs the metric.
  void step() override;
  /// For "reduce_lr_on_plateau"; throws `StateError` for the others.
  void step(double metric);

  std::vector<double> get_lr() const override;
  accelerate::Json state_dict() const override;
  void load_state_dict(const accelerate::Json& state) override;

 protected:
  bool follows_position() const override { return plateau_ == nullptr; }

 private:
  void follow_plateau();

  Factor factor_;
  std::unique_ptr<accelerate::ReduceLROnPlateau> plateau_;
};

/// Returns the schedule of that name: linear, cosine, cosine_with_restarts,
/// polynomial, constant, constant_with_warmup, inverse_sqrt,
/// reduce_lr_on_plateau, cosine_with_min_lr, cosine_warmup_with_min_lr or
/// warmup_stable_decay.
///
/// Throws `ArgumentError` for another name, for an option that is missing or
/// out of range, and for one that the schedule would not look at.
[[nodiscard]] TRANSFORMERS_API Scheduler get_scheduler(
    std::string_view name,
    torch::optim::Optimizer& optimizer,
    const SchedulerOptions& options = {});

/// The names that `get_scheduler` knows.
[[nodiscard]] TRANSFORMERS_API std::vector<std::string> scheduler_names();

}  // namespace transformers
