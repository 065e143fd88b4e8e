// SPDX-License-Identifier: Apache-2.0
#include "training/training_step.h"

#include <cmath>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "accelerate/error.h"
#include "accelerate/logging.h"
#include "base/str_cat.h"
#include "comm/launcher_link.h"

namespace accelerate {
namespace {

void check_loss(const at::Tensor& loss, bool debug) {
  if (!loss.defined()) {
    throw ArgumentError(
        "backward got an undefined loss",
        "compute the loss first, for example by passing `labels` to the model");
  }
  if (loss.numel() != 1) {
    throw ArgumentError(
        str_cat("backward needs a scalar loss, but got shape ", loss.sizes()),
        "reduce it first, for example with `loss.mean()`");
  }
  if (!loss.requires_grad()) {
    throw ArgumentError(
        "backward got a loss without an autograd graph",
        "compute it from the model's output, outside of a NoGradGuard");
  }
  // Waits for the device, so the check is done only in debug mode.
  if (debug && !std::isfinite(loss.item<double>())) {
    throw ArgumentError(
        str_cat("backward got a loss of ", loss.item<double>()),
        "check the batch and the learning rate of this step; the loss is "
        "checked because ACCELERATE_DEBUG_MODE is set");
  }
}

void multiply_gradients(const GradientPath& path, double factor) {
  if (factor == 1) {
    return;
  }
  for (const at::Tensor& parameter : path.parameters().tensors) {
    if (parameter.grad().defined()) {
      parameter.grad().mul_(factor);
    }
  }
}

}  // namespace

TrainingStep::TrainingStep(const Run& run, const Options& options)
    : run_(run),
      broadcasts_buffers_(options.broadcast_buffers),
      accumulation_(options.accumulation),
      gradients_(std::make_shared<GradientState>()),
      scaling_(run.precision.make_loss_scaling()),
      joint_steps_(run.mesh),
      batch_norms_(run.strategy) {
}

// Keeps settings: accumulation steps, triggers and open regions.
void TrainingStep::restart() {
  gradients_ = std::make_shared<GradientState>();
  scaling_ = run_.precision.make_loss_scaling();
  accumulation_.restart();
  updates_ = 0;
}

void TrainingStep::begin_micro_step(std::optional<double> weight) {
  if (in_micro_step_) {
    throw StateError(
        "accumulate() was called inside the region of another accumulate()",
        "end the first region before the next micro-batch; one region covers "
        "all prepared models");
  }
  accumulation_.begin_micro_step(*gradients_, weight);
  in_micro_step_ = true;
}

bool TrainingStep::backward(
    const at::Tensor& loss, const BackwardOptions& options) {
  check_loss(loss, run_.state.debug());
  run_.precision.check_thread();
  if (options.create_graph && has_several_ranks()) {
    throw UnsupportedError(
        "backward with `create_graph` does not work with several processes: "
        "averaging the gradients does not preserve the autograd graph",
        "use torch::autograd::grad with `create_graph` for the inner "
        "gradients, then call backward on a loss computed from them");
  }
  const Sync sync = next_sync();
  // With one process, new parameters matter only if accumulated gradients are
  // kept outside `.grad`.
  if (has_several_ranks() || accumulation_.plugin().num_steps > 1) {
    run_.objects.refresh_models();
  }
  if (scaling_->is_on()) {
    scaling_->begin_backward(run_.objects.trained_parameters());
  }
  const double factor = accumulation_.loss_factor();
  const at::Tensor scaled_loss = factor == 1 ? loss : loss.mul(factor);
  run_.strategy.begin_backward(participants(sync));
  run_engine(scaling_->scale(scaled_loss), options);
  const bool completes_group = sync == Sync::now || sync == Sync::visible;
  if (completes_group) {
    finish_group(sync);
  }
  return completes_group;
}

// Decides how this backward pass synchronizes gradients. Announces the step to
// the launcher and, in `join_uneven_inputs`, to the other ranks.
Sync TrainingStep::next_sync() {
  const Sync sync = regions_.next(
      gradients_->sync_gradients, accumulation_.plugin().sync_each_batch);
  if (regions_.is_update(sync)) {
    report_step_to_launcher(updates_ + 1);
  }
  if (joint_steps_.active() && sync == Sync::now) {
    joint_steps_.announce();
  }
  return sync;
}

std::vector<Strategy::Participant> TrainingStep::participants(Sync sync) const {
  std::vector<Strategy::Participant> all;
  for (const PreparedModel* model : run_.objects.trained_models()) {
    all.push_back({model->path.get(), regions_.sync_of(model->module, sync)});
  }
  return all;
}

void TrainingStep::run_engine(
    const at::Tensor& loss, const BackwardOptions& options) {
  try {
    // The gradients of fp32 parts of the model must stay fp32.
    const auto off = run_.precision.guard({.enabled = false});
    loss.backward({}, options.retain_graph, options.create_graph);
  } catch (...) {
    run_.strategy.fail_backward();
    throw;
  }
  run_.strategy.end_backward();
}

void TrainingStep::finish_group(Sync sync) {
  const at::NoGradGuard guard;
  batch_norms_.check_reached();
  scale_gradients(sync);
  if (scaling_->is_on()) {
    scaling_->finish(run_.objects.trained_parameters());
  }
  updates_ += regions_.is_update(sync) ? 1 : 0;
  if (sync == Sync::now) {
    broadcast_buffers();
    warn_about_incomplete_group();
  }
}

// Gradients that are not averaged over processes need a different factor.
void TrainingStep::scale_gradients(Sync sync) const {
  const double local = accumulation_.local_gradient_factor();
  const double joint =
      sync == Sync::now ? accumulation_.gradient_factor(run_.mesh.data_group())
                        : local;
  for (const PreparedModel* model : run_.objects.trained_models()) {
    const bool is_joint = regions_.sync_of(model->module, sync) == Sync::now;
    multiply_gradients(*model->path, is_joint ? joint : local);
  }
}

void TrainingStep::broadcast_buffers() {
  if (!broadcasts_buffers_) {
    return;
  }
  for (const PreparedModel* model : run_.objects.trained_models()) {
    if (model->buffers.size() > 0) {
      run_.strategy.broadcast(
          model->buffers.tensors, joint_steps_.buffer_source());
    }
  }
}

void TrainingStep::warn_about_incomplete_group() {
  if (accumulation_.incomplete_group() &&
      accumulation_.plugin().weighting == AccumulationWeighting::fixed &&
      !std::exchange(warned_incomplete_, true) &&
      PartialState::is_initialized()) {
    get_logger("accelerate")
        .warning(str_cat(
            "the last micro-batch group of an epoch had fewer than ",
            accumulation_.plugin().num_steps,
            " micro-batches, so it has less weight; set "
            "GradientAccumulationPlugin::weighting to `group` to give it full "
            "weight"));
  }
}

std::shared_ptr<SchedulerContext> TrainingStep::make_scheduler_context() const {
  auto context = std::make_shared<SchedulerContext>();
  context->sync_gradients = [gradients = gradients_] {
    return gradients->sync_gradients;
  };
  context->step_was_skipped = [scaling = scaling_] {
    return scaling->step_was_skipped();
  };
  context->deferred_skip_flag = [scaling = scaling_] {
    return scaling->deferred_skip_flag();
  };
  context->data_parallel_size = run_.mesh.data_parallel_size();
  context->adjust_scheduler = accumulation_.plugin().adjust_scheduler;
  return context;
}

// An update makes buffers equal; after the update, each rank processes
// different rows. In local training, all ranks continue with the parameters of
// the main process and the matching buffers.
bool TrainingStep::has_rank_buffers() const {
  const bool are_equal = broadcasts_buffers_ && gradients_->sync_gradients &&
                         !regions_.in_no_sync();
  return has_several_ranks() && !are_equal && !regions_.trains_locally();
}

void TrainingStep::join() {
  if (!joint_steps_.active()) {
    return;
  }
  joint_steps_.end();
  while (joint_steps_.wait_for_step()) {
    std::vector<GradientPath*> paths;
    for (const PreparedModel* model : run_.objects.trained_models()) {
      paths.push_back(model->path.get());
    }
    run_.strategy.join_backward(paths);
    accumulation_.join_gradient_factor(run_.mesh.data_group());
    broadcast_buffers();
  }
  const int longest = joint_steps_.longest_rank();
  for (const PreparedModel& model : run_.objects.models()) {
    run_.strategy.broadcast(model.parameters.tensors, longest);
    run_.strategy.broadcast(model.buffers.tensors, longest);
  }
}

}  // namespace accelerate
