// SPDX-License-Identifier: Apache-2.0
// One backward pass of an Accelerator, from the loss to the gradients of an
// update.
#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/logging.h"
#include "accelerator/accelerator_impl.h"
#include "base/str_cat.h"
#include "comm/launcher_link.h"

namespace accelerate {
namespace {

void check_loss(const at::Tensor& loss, bool debug) {
  if (!loss.defined() || loss.numel() != 1) {
    throw ArgumentError(
        loss.defined()
            ? str_cat(
                  "backward needs a scalar loss, but got shape ", loss.sizes())
            : std::string("backward got an undefined loss"),
        "reduce it first, for example with `loss.mean()`");
  }
  if (!loss.requires_grad()) {
    throw ArgumentError(
        "backward got a loss without an autograd graph",
        "compute it from the model's output, outside of a NoGradGuard");
  }
  // Reads from the device, so only in debug mode.
  if (debug && !std::isfinite(loss.item<double>())) {
    throw ArgumentError(
        str_cat("backward got a loss of ", loss.item<double>()),
        "check the batch and the learning rate of this step; the loss is "
        "checked because ACCELERATE_DEBUG_MODE is set");
  }
}

void scale_gradients(const GradientPath& path, double factor) {
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

Sync Accelerator::Impl::next_sync() {
  triggered_now_ = std::exchange(sync_triggered, false);
  if (no_sync_depth > 0 && !triggered_now_) {
    return local_sync();
  }
  if (gradients->sync_gradients) {
    return Sync::now;
  }
  return accumulation.plugin().sync_each_batch ? Sync::hidden : Sync::later;
}

// The synchronization without other processes: optimizers still have nothing to
// do before gradient accumulation is complete.
Sync Accelerator::Impl::local_sync() const {
  return gradients->sync_gradients ? Sync::visible : Sync::later;
}

// After `no_sync`, `.grad` may hold only a part of the sum; in local training
// it is the whole gradient.
bool Accelerator::Impl::is_update(Sync sync) const {
  return sync == Sync::now || (sync == Sync::visible && local_trainers > 0);
}

Sync Accelerator::Impl::sync_of(const PreparedModel& model, Sync sync) const {
  const auto local = local_models.find(model.module);
  return local != local_models.end() && local->second > 0 && !triggered_now_
             ? local_sync()
             : sync;
}

std::vector<at::Tensor> Accelerator::Impl::trained_parameters() const {
  std::vector<at::Tensor> all;
  for (const PreparedModel& model : models) {
    if (model.path) {
      const auto& tensors = model.path->parameters().tensors;
      all.insert(all.end(), tensors.begin(), tensors.end());
    }
  }
  return all;
}

void Accelerator::Impl::backward(
    const at::Tensor& loss, const BackwardOptions& backward_options) {
  check_loss(loss, state.debug());
  check_thread();
  if (backward_options.create_graph && state.use_distributed()) {
    throw UnsupportedError(
        "backward with `create_graph` does not work with several processes: "
        "averaging the gradients does not preserve the autograd graph",
        "use torch::autograd::grad with `create_graph` for the inner "
        "gradients, then call backward on a loss computed from them");
  }
  const Sync sync = next_sync();
  if (is_update(sync)) {
    report_step_to_launcher(updates + 1);
  }
  if (joining && sync == Sync::now) {
    ++join_steps;
    static_cast<void>(announce_joint_step(/*trains=*/true));
  }
  refresh_models();
  if (scaling->is_on()) {
    scaling->begin_backward(trained_parameters());
  }
  const double factor = accumulation.loss_factor();
  const at::Tensor scaled_loss = factor == 1 ? loss : loss.mul(factor);
  begin_paths(sync);
  run_engine(scaling->scale(scaled_loss), backward_options);
  if (sync == Sync::now || sync == Sync::visible) {
    finish_update(sync);
  }
}

// The largest model comes first, because it reduces its gradients early. The
// order is the same on every rank.
std::vector<PreparedModel*> Accelerator::Impl::models_with_paths() {
  std::vector<PreparedModel*> found;
  for (PreparedModel& model : models) {
    if (model.path) {
      found.push_back(&model);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](auto* a, auto* b) {
    return a->path->num_elements() > b->path->num_elements();
  });
  return found;
}

void Accelerator::Impl::begin_paths(Sync sync) {
  bool reduces = false;
  for (PreparedModel* model : models_with_paths()) {
    const Sync model_sync = sync_of(*model, sync);
    model->path->begin(model_sync, /*overlap=*/!reduces);
    reduces = reduces || model_sync == Sync::now || model_sync == Sync::hidden;
  }
  if (reduces && state.use_distributed()) {
    agreement_->propose();
  }
}

void Accelerator::Impl::run_engine(
    const at::Tensor& loss, const BackwardOptions& backward_options) {
  const auto trained = models_with_paths();
  try {
    // The gradients of fp32 parts of the model must stay fp32.
    const AutocastGuard off(
        state.device().type(), precision, {.enabled = false});
    loss.backward(
        {}, backward_options.retain_graph, backward_options.create_graph);
  } catch (...) {
    for (PreparedModel* model : trained) {
      model->path->fail();
    }
    throw;
  }
  // Every rank ends all paths, even when one of them reports a failure.
  std::exception_ptr first;
  for (PreparedModel* model : trained) {
    try {
      model->path->end();
    } catch (...) {
      first = first ? first : std::current_exception();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

// From the second update on, optimizers have a state. Pinned memory cannot be
// returned, so with a GPU it is allocated at the first save.
void Accelerator::Impl::reserve_checkpoint_memory() {
  if (updates < 2 || !state.device().is_cpu() || !checkpoints->wants_memory()) {
    return;
  }
  try {
    checkpoints->reserve_memory(collect_large());
  } catch (const Error&) {
    // A later save reports the error; there may never be one.
    checkpoints->skip_memory();
  }
}

void Accelerator::Impl::finish_update(Sync sync) {
  const at::NoGradGuard guard;
  const double local = accumulation.local_gradient_factor();
  const double joint =
      sync == Sync::now ? accumulation.gradient_factor(state.group()) : local;
  for (const PreparedModel& model : models) {
    if (model.path) {
      scale_gradients(
          *model.path, sync_of(model, sync) == Sync::now ? joint : local);
    }
  }
  if (scaling->is_on()) {
    scaling->finish(trained_parameters());
  }
  updates += is_update(sync) ? 1 : 0;
  reserve_checkpoint_memory();
  if (sync != Sync::now) {
    return;
  }
  broadcast_buffers();
  if (accumulation.incomplete_group() &&
      accumulation.plugin().weighting == AccumulationWeighting::fixed &&
      !std::exchange(warned_incomplete, true) &&
      PartialState::is_initialized()) {
    get_logger("accelerate")
        .warning(str_cat(
            "the last micro-batch group of an epoch had fewer than ",
            accumulation.plugin().num_steps,
            " micro-batches, so it has less weight; set "
            "GradientAccumulationPlugin::weighting to `group` to give it full "
            "weight"));
  }
}

void Accelerator::Impl::broadcast_buffers() {
  if (!options.ddp_kwargs.broadcast_buffers || !state.use_distributed()) {
    return;
  }
  for (const PreparedModel& model : models) {
    if (model.path && model.buffers.size() > 0) {
      state.group().broadcast(model.buffers.tensors, buffer_source_);
    }
  }
}

// While uneven inputs are joined: ranks that still train announce it, and the
// other ranks take part in the step. Buffers come from a rank that trains.
bool Accelerator::Impl::announce_joint_step(bool trains) {
  const auto all = state.group().gather({at::full({1}, trains ? 1 : 0)})[0];
  const bool any = all.any().item<bool>();
  buffer_source_ =
      any ? static_cast<int>(all.argmax().item<std::int64_t>()) : 0;
  return any;
}

// This rank has no more batches: it takes part in the steps of the other ranks
// until none trains. Then all ranks take the parameters of a rank that trained
// longest.
void Accelerator::Impl::join() {
  joining = false;
  const Group& group = state.group();
  while (announce_joint_step(/*trains=*/false)) {
    const auto for_each_reducer = [this](auto&& action) {
      for (PreparedModel* model : models_with_paths()) {
        if (auto* reducer = dynamic_cast<Reducer*>(model->path.get())) {
          action(*reducer);
        }
      }
    };
    for_each_reducer(
        [](Reducer& reducer) { reducer.begin_zero_contribution(); });
    agreement_->propose();
    for_each_reducer([](Reducer& reducer) { reducer.end_zero_contribution(); });
    accumulation.join_gradient_factor(group);
    broadcast_buffers();
  }
  const auto steps = group.gather({at::full({1}, join_steps, at::kLong)})[0];
  const auto longest = static_cast<int>(steps.argmax().item<std::int64_t>());
  for (const PreparedModel& model : models) {
    group.broadcast(model.parameters.tensors, longest);
    group.broadcast(model.buffers.tensors, longest);
  }
}

}  // namespace accelerate
