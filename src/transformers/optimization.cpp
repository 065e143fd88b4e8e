// SPDX-License-Identifier: Apache-2.0
#include "transformers/optimization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;
using Factor = Scheduler::Factor;
using Step = std::int64_t;

double fraction(const Step steps, const Step total) {
  return static_cast<double>(steps) /
         static_cast<double>(std::max<Step>(1, total));
}

/// A cosine wave that falls from 1 to 0 in half a cycle.
double wave(const double cycles, const double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * cycles * 2.0 * progress));
}

double between(const double low, const double factor) {
  return std::max(0.0, factor * (1.0 - low) + low);
}

/// Reads and checks the options of a schedule. Errors name the schedule.
class Request {
 public:
  Request(
      const std::string_view name,
      const torch::optim::Optimizer& optimizer,
      const SchedulerOptions& options)
      : name_(name),
        options_(options),
        initial_lr_(optimizer.defaults().get_lr()) {}

  std::string_view name() const { return name_; }
  const SchedulerOptions& options() const { return options_; }
  double initial_lr() const { return initial_lr_; }

  Step warmup() const {
    return needed("num_warmup_steps", options_.num_warmup_steps);
  }
  Step total() const {
    return needed("num_training_steps", options_.num_training_steps);
  }

  Step needed(const char* option, const std::optional<Step>& value) const {
    if (!value) {
      throw ArgumentError(
          str_cat("the schedule `", name_, "` needs `", option, "`"),
          str_cat("pass `{.", option, " = …}`"));
    }
    if (*value < 0) {
      refuse(option, *value, "0 or more");
    }
    return *value;
  }

  template <typename Value>
  [[noreturn]] void refuse(
      const char* option, const Value& value, const char* allowed) const {
    throw ArgumentError(str_cat(
        "`",
        option,
        "` for the schedule `",
        name_,
        "` is ",
        value,
        ", but must be ",
        allowed));
  }

 private:
  std::string_view name_;
  const SchedulerOptions& options_;
  double initial_lr_;
};

Factor constant(const Request& /*request*/) {
  return [](Step /*step*/) { return 1.0; };
}

/// Rises to 1 in `warmup` steps, then follows `after`.
template <typename After>
Factor warmed_up(const Step warmup, After after) {
  return [warmup, after](const Step step) {
    return step < warmup ? fraction(step, warmup) : after(step);
  };
}

Factor constant_with_warmup(const Request& request) {
  return warmed_up(request.warmup(), [](Step /*step*/) { return 1.0; });
}

Factor linear(const Request& request) {
  const Step warmup = request.warmup();
  const Step total = request.total();
  return warmed_up(warmup, [warmup, total](const Step step) {
    return std::max(0.0, fraction(total - step, total - warmup));
  });
}

Factor cosine(const Request& request) {
  const Step warmup = request.warmup();
  const Step total = request.total();
  const double cycles = request.options().num_cycles.value_or(0.5);
  return warmed_up(warmup, [=](const Step step) {
    return std::max(0.0, wave(cycles, fraction(step - warmup, total - warmup)));
  });
}

Factor cosine_with_restarts(const Request& request) {
  const Step warmup = request.warmup();
  const Step total = request.total();
  const double cycles = request.options().num_cycles.value_or(1.0);
  return warmed_up(warmup, [=](const Step step) {
    const double progress = fraction(step - warmup, total - warmup);
    return progress >= 1.0
               ? 0.0
               : std::max(0.0, wave(0.5, std::fmod(cycles * progress, 1.0)));
  });
}

/// The final learning rate as a fraction of the initial one.
double min_lr_fraction(const Request& request) {
  const auto& options = request.options();
  if (options.min_lr.has_value() == options.min_lr_rate.has_value()) {
    throw ArgumentError(
        str_cat(
            "the schedule `",
            request.name(),
            "` needs exactly one of `min_lr` and `min_lr_rate`"),
        str_cat(
            options.min_lr ? "pass only one of them, for example" : "pass",
            " `{.min_lr_rate = 0.1}` to end at a tenth of the learning rate"));
  }
  return options.min_lr ? *options.min_lr / request.initial_lr()
                        : *options.min_lr_rate;
}

Factor cosine_with_min_lr(const Request& request) {
  const Step warmup = request.warmup();
  const Step total = request.total();
  const double cycles = request.options().num_cycles.value_or(0.5);
  const double low = min_lr_fraction(request);
  return warmed_up(warmup, [=](const Step step) {
    return between(low, wave(cycles, fraction(step - warmup, total - warmup)));
  });
}

/// Unlike `cosine_with_min_lr`, this counts steps from 1: the learning rate of
/// the first step is not 0, and the last step has the minimum learning rate.
Factor cosine_warmup_with_min_lr(const Request& request) {
  const Step warmup = request.warmup();
  const Step total = request.total();
  const double cycles = request.options().num_cycles.value_or(0.5);
  const double low = min_lr_fraction(request);
  const std::optional<double> first = request.options().warmup_lr_rate;
  return [=](const Step step) {
    if (step < warmup) {
      return first ? *first + (1.0 - *first) * fraction(step, warmup - 1)
                   : fraction(step + 1, warmup);
    }
    const double progress = fraction(step - warmup + 1, total - warmup);
    return between(low, wave(cycles, progress));
  };
}

Factor polynomial(const Request& request) {
  const Step warmup = request.warmup();
  const Step total = request.total();
  const double power = request.options().power.value_or(1.0);
  const double end = request.options().lr_end.value_or(1e-7);
  const double start = request.initial_lr();
  if (end >= start) {
    throw ArgumentError(
        str_cat(
            "`lr_end` for the schedule `polynomial` is ",
            end,
            ", but must be below the learning rate, which is ",
            start),
        "pass a smaller `lr_end`, or a larger learning rate to the optimizer");
  }
  return warmed_up(warmup, [=](const Step step) {
    if (step > total) {
      return end / start;
    }
    const double left = 1.0 - fraction(step - warmup, total - warmup);
    return ((start - end) * std::pow(left, power) + end) / start;
  });
}

Factor inverse_sqrt(const Request& request) {
  const Step warmup = request.warmup();
  const Step timescale =
      request.options().timescale.value_or(warmup > 0 ? warmup : 10'000);
  if (timescale < 1) {
    request.refuse("timescale", timescale, "1 or more");
  }
  return warmed_up(warmup, [=](const Step step) {
    return 1.0 / std::sqrt(fraction(step + timescale - warmup, timescale));
  });
}

enum class Curve { linear, cosine, one_minus_sqrt };

Curve curve(
    const Request& request,
    const char* option,
    const std::optional<std::string>& name,
    const Curve otherwise) {
  if (!name) {
    return otherwise;
  }
  if (*name == "linear") {
    return Curve::linear;
  }
  if (*name == "cosine") {
    return Curve::cosine;
  }
  if (*name == "1-sqrt") {
    return Curve::one_minus_sqrt;
  }
  request.refuse(
      option,
      str_cat("\"", *name, "\""),
      "\"linear\", \"cosine\" or \"1-sqrt\"");
}

double falling(const Curve shape, const double cycles, const double progress) {
  switch (shape) {
    case Curve::linear:
      return 1.0 - progress;
    case Curve::cosine:
      return wave(cycles, progress);
    case Curve::one_minus_sqrt:
      return 1.0 - std::sqrt(progress);
  }
  return 0.0;
}

double rising(const Curve shape, const double progress) {
  return falling(shape, 0.5, 1.0 - progress);
}

Step stable_steps(const Request& request, const Step decay) {
  const auto& options = request.options();
  if (options.num_stable_steps) {
    return request.needed("num_stable_steps", options.num_stable_steps);
  }
  const Step stable = request.total() - request.warmup() - decay;
  if (stable < 0) {
    throw ArgumentError(
        str_cat(
            "the sum of `num_warmup_steps` (",
            request.warmup(),
            ") and `num_decay_steps` (",
            decay,
            ") exceeds `num_training_steps` (",
            request.total(),
            ")"),
        "set `num_training_steps` to at least that sum");
  }
  return stable;
}

Factor warmup_stable_decay(const Request& request) {
  const auto& options = request.options();
  const Step warmup = request.warmup();
  const Step decay = request.needed("num_decay_steps", options.num_decay_steps);
  const Step stable_end = warmup + stable_steps(request, decay);
  const Curve up =
      curve(request, "warmup_type", options.warmup_type, Curve::linear);
  const Curve down =
      curve(request, "decay_type", options.decay_type, Curve::cosine);
  const double low = options.min_lr_ratio.value_or(0.0);
  const double cycles = options.num_cycles.value_or(0.5);
  return [=](const Step step) {
    if (step < warmup) {
      return between(low, rising(up, fraction(step, warmup)));
    }
    if (step < stable_end) {
      return 1.0;
    }
    if (step < stable_end + decay) {
      return between(
          low, falling(down, cycles, fraction(step - stable_end, decay)));
    }
    return low;
  };
}

/// A schedule and the specific options that it uses.
struct Entry {
  const char* name;
  Factor (*factor)(const Request&);
  std::vector<std::string_view> options;
};

constexpr const char* plateau_name = "reduce_lr_on_plateau";
constexpr const char* greedy_name = "greedy";

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"linear", linear, {}},
      {"cosine", cosine, {"num_cycles"}},
      {"cosine_with_restarts", cosine_with_restarts, {"num_cycles"}},
      {"polynomial", polynomial, {"power", "lr_end"}},
      {"constant", constant, {}},
      {"constant_with_warmup", constant_with_warmup, {}},
      {"inverse_sqrt", inverse_sqrt, {"timescale"}},
      {plateau_name, nullptr, {"plateau"}},
      {"cosine_with_min_lr",
       cosine_with_min_lr,
       {"num_cycles", "min_lr", "min_lr_rate"}},
      {"cosine_warmup_with_min_lr",
       cosine_warmup_with_min_lr,
       {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"}},
      {"warmup_stable_decay",
       warmup_stable_decay,
       {"num_cycles",
        "num_decay_steps",
        "num_stable_steps",
        "warmup_type",
        "decay_type",
        "min_lr_ratio"}},
      {greedy_name, nullptr, {"greedy"}}};
  return all;
}

const Entry& entry(const std::string_view name) {
  for (const Entry& candidate : entries()) {
    if (candidate.name == name) {
      return candidate;
    }
  }
  throw ArgumentError(
      str_cat("there is no schedule named `", name, "`"),
      str_cat("choose one of ", accelerate::join(scheduler_names(), ", ")));
}

void refuse_unused(const Entry& entry, const SchedulerOptions& options) {
  const std::array<std::pair<std::string_view, bool>, 14> specific{{
      {"num_cycles", options.num_cycles.has_value()},
      {"power", options.power.has_value()},
      {"lr_end", options.lr_end.has_value()},
      {"min_lr", options.min_lr.has_value()},
      {"min_lr_rate", options.min_lr_rate.has_value()},
      {"warmup_lr_rate", options.warmup_lr_rate.has_value()},
      {"timescale", options.timescale.has_value()},
      {"num_decay_steps", options.num_decay_steps.has_value()},
      {"num_stable_steps", options.num_stable_steps.has_value()},
      {"warmup_type", options.warmup_type.has_value()},
      {"decay_type", options.decay_type.has_value()},
      {"min_lr_ratio", options.min_lr_ratio.has_value()},
      {"plateau", options.plateau.has_value()},
      {"greedy", options.greedy.has_value()},
  }};
  const auto is_used = [&](const std::string_view option) {
    return std::find(entry.options.begin(), entry.options.end(), option) !=
           entry.options.end();
  };
  for (const auto& [option, is_set] : specific) {
    if (is_set && !is_used(option)) {
      throw ArgumentError(
          str_cat(
              "the schedule `", entry.name, "` does not use `", option, "`"),
          str_cat("leave out `", option, "`"));
    }
  }
}

}  // namespace

Scheduler::Scheduler(torch::optim::Optimizer& optimizer, Factor factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  initial_step();
}

Scheduler::Scheduler(
    torch::optim::Optimizer& optimizer,
    const accelerate::ReduceLROnPlateauOptions& options)
    : LRScheduler(optimizer),
      plateau_(
          std::make_unique<accelerate::ReduceLROnPlateau>(optimizer, options)) {
  follow_metric();
}

Scheduler::Scheduler(
    torch::optim::Optimizer& optimizer, const GreedyLROptions& options)
    : LRScheduler(optimizer),
      greedy_(std::make_unique<GreedyLR>(optimizer, options)) {
  follow_metric();
}

Scheduler::~Scheduler() = default;

accelerate::LRScheduler* Scheduler::by_metric() const {
  return plateau_ ? static_cast<LRScheduler*>(plateau_.get()) : greedy_.get();
}

void Scheduler::step() {
  if (LRScheduler* const schedule = by_metric()) {
    schedule->step();  // Throws, because the metric is missing.
  }
  LRScheduler::step();
}

void Scheduler::step(const double metric) {
  if (by_metric() == nullptr) {
    throw accelerate::StateError(
        "this schedule does not use a metric",
        "call `step()` without a metric");
  }
  if (plateau_) {
    plateau_->step(metric);
  } else {
    greedy_->step(metric);
  }
  follow_metric();
}

void Scheduler::follow_metric() {
  last_lr_ = current_lr();
  last_epoch_ = by_metric()->last_epoch();
  step_count_ = by_metric()->step_count();
}

std::vector<double> Scheduler::get_lr() const {
  if (const LRScheduler* const schedule = by_metric()) {
    return schedule->get_lr();
  }
  std::vector<double> rates = base_lrs_;
  for (double& rate : rates) {
    rate *= factor_(last_epoch_);
  }
  return rates;
}

accelerate::Json Scheduler::state_dict() const {
  const LRScheduler* const schedule = by_metric();
  return schedule != nullptr ? schedule->state_dict()
                             : LRScheduler::state_dict();
}

void Scheduler::load_state_dict(const accelerate::Json& state) {
  LRScheduler* const schedule = by_metric();
  if (schedule == nullptr) {
    LRScheduler::load_state_dict(state);
    return;
  }
  schedule->load_state_dict(state);
  follow_metric();
}

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    names.emplace_back(entry.name);
  }
  return names;
}

Scheduler get_scheduler(
    const std::string_view name,
    torch::optim::Optimizer& optimizer,
    const SchedulerOptions& options) {
  const Entry& chosen = entry(name);
  refuse_unused(chosen, options);
  if (name == greedy_name) {
    return Scheduler(optimizer, options.greedy.value_or(GreedyLROptions{}));
  }
  if (chosen.factor == nullptr) {
    return Scheduler(
        optimizer,
        options.plateau.value_or(accelerate::ReduceLROnPlateauOptions{}));
  }
  return Scheduler(
      optimizer, chosen.factor(Request(chosen.name, optimizer, options)));
}

}  // namespace transformers
