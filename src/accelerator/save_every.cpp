// SPDX-License-Identifier: Apache-2.0
// Periodic saves of a training loop.
#include <chrono>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerator/accelerator_impl.h"
#include "accelerator/checkpoint_manager.h"
#include "accelerator/preemption.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

/// Decides when a save is due; the same on every rank.
class SaveClock {
 public:
  explicit SaveClock(const SaveEveryOptions& options) : options_(options) {}

  bool is_due(const Group& group) {
    ++steps_;
    if (options_.steps && steps_ % *options_.steps == 0) {
      return true;
    }
    if (!options_.minutes) {
      return false;
    }
    const std::chrono::duration<double, std::ratio<60>> passed =
        std::chrono::steady_clock::now() - last_;
    std::vector<Json> due{Json(passed.count() >= *options_.minutes)};
    group.broadcast_object_list(due);
    return due.front().as_bool();
  }

  void restart() { last_ = std::chrono::steady_clock::now(); }

 private:
  SaveEveryOptions options_;
  std::int64_t steps_ = 0;
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

void check_every(const SaveEveryOptions& options) {
  if (!options.steps && !options.minutes) {
    throw ArgumentError(
        "save_every needs `steps` or `minutes`", "set at least one of them");
  }
  if ((options.steps && *options.steps < 1) ||
      (options.minutes && !(*options.minutes > 0))) {
    throw ArgumentError(
        str_cat(
            "save_every: ",
            options.steps && *options.steps < 1
                ? str_cat("`steps` is ", *options.steps)
                : str_cat("`minutes` is ", *options.minutes)),
        "pass a number above 0");
  }
}

}  // namespace

bool Accelerator::checkpoint_requested() {
  install_preemption_handlers();
  const auto local = at::full({1}, preemption_requested() ? 1 : 0, at::kLong);
  return group().reduce({local}, Reduction::max)[0].item<std::int64_t>() > 0;
}

std::function<bool()> Accelerator::save_every(const SaveEveryOptions& options) {
  check_every(options);
  // The first save needs a folder; throw now if there is none.
  static_cast<void>(impl_->checkpoints->folder());
  return [this,
          options,
          clock = SaveClock(options),
          stop_handled = false,
          prepared = options.blocking]() mutable {
    const bool due = clock.is_due(group());
    const bool stop =
        checkpoint_requested() && !std::exchange(stop_handled, true);
    if (due || stop) {
      // A process that must stop may be killed before a background save ends.
      save_state(SaveStateOptions{.blocking = options.blocking || stop});
      clock.restart();
    } else if (!prepared && !impl_->checkpoints->memory_reserved()) {
      // After the first step, when optimizers have a state.
      impl_->checkpoints->writer(state()).prepare(impl_->collect_models());
    }
    prepared = true;
    return due || stop;
  };
}

}  // namespace accelerate
