// SPDX-License-Identifier: Apache-2.0
#include "accelerator/accelerator_impl.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "config/environment.h"
#include "device/device_library.h"
#include "parallel/local_gradients.h"
#include "parallel/model_sync.h"
#include "precision/device_precision.h"

namespace accelerate {
namespace {

// The Accelerator that keeps autocast on in a thread; at most one.
std::atomic<const void*> autocast_owner = nullptr;

Precision chosen_precision(
    const AcceleratorOptions& options,
    const Environment& environment,
    c10::Device device) {
  Precision precision = Precision::no;
  if (options.mixed_precision) {
    precision = *options.mixed_precision;
  } else if (const auto name = environment.get("ACCELERATE_MIXED_PRECISION")) {
    precision = parse_precision(*name);
  }
  check_precision(precision, device.type());
  if (const DeviceBackend* backend = device_backend_of(device)) {
    check_device_precision(precision, *backend, device.index());
  }
  return precision;
}

// Sets whether fp32 matmuls and convolutions may use TF32.
void choose_tf32(std::optional<bool> allow) {
  if (allow) {
    at::globalContext().setAllowTF32CuBLAS(*allow);
    at::globalContext().setAllowTF32CuDNN(*allow);
  }
}

GradientAccumulationPlugin chosen_accumulation(
    const AcceleratorOptions& options, const Environment& environment) {
  if (options.gradient_accumulation_plugin) {
    if (options.gradient_accumulation_steps) {
      throw ArgumentError(
          "`gradient_accumulation_steps` and `gradient_accumulation_plugin` "
          "are both set",
          "set only the plugin's `num_steps`");
    }
    return *options.gradient_accumulation_plugin;
  }
  GradientAccumulationPlugin plugin;
  plugin.num_steps = options.gradient_accumulation_steps.value_or(
      environment.get_integer("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", 1)
          .value_or(1));
  return plugin;
}

DataLoaderConfiguration chosen_data(const AcceleratorOptions& options) {
  DataLoaderConfiguration data =
      options.dataloader_config.value_or(DataLoaderConfiguration{});
  if (options.split_batches) {
    if (options.dataloader_config &&
        data.split_batches != *options.split_batches) {
      throw ArgumentError(
          str_cat(
              "`split_batches` is ",
              *options.split_batches ? "true" : "false",
              ", but `dataloader_config.split_batches` is ",
              data.split_batches ? "true" : "false"),
          "set `split_batches` only in `dataloader_config`");
    }
    data.split_batches = *options.split_batches;
  }
  return data;
}

void check_options(const AcceleratorOptions& options) {
  const double cap = options.ddp_kwargs.bucket_cap_mb;
  if (!(cap > 0 && std::isfinite(cap))) {
    throw ArgumentError(
        str_cat("`bucket_cap_mb` is ", cap), "pass a number above 0");
  }
}

std::optional<at::ScalarType> wire_type(CommHook hook) {
  switch (hook) {
    case CommHook::no:
      return std::nullopt;
    case CommHook::fp16:
      return at::kHalf;
    case CommHook::bf16:
      return at::kBFloat16;
  }
  throw InternalError("unknown communication hook");
}

// Keeps the gradient sums of unfinished gradient accumulation with their
// parameters.
class SavedSums {
 public:
  explicit SavedSums(const GradientPath* path) {
    if (path != nullptr) {
      const auto sums = path->sums();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        by_parameter_[path->parameters().tensors[i].unsafeGetTensorImpl()] =
            sums[i];
      }
    }
  }

  void move_to(GradientPath* path) const {
    if (path == nullptr || by_parameter_.empty()) {
      return;
    }
    std::vector<at::Tensor> sums;
    for (const at::Tensor& parameter : path->parameters().tensors) {
      const auto found = by_parameter_.find(parameter.unsafeGetTensorImpl());
      sums.push_back(
          found != by_parameter_.end() ? found->second : at::Tensor());
    }
    path->set_sums(sums);
  }

 private:
  std::map<const c10::TensorImpl*, at::Tensor> by_parameter_;
};

}  // namespace

NamedTensors named_tensors(
    const torch::OrderedDict<std::string, at::Tensor>& items) {
  NamedTensors all;
  for (const auto& item : items) {
    all.names.push_back(item.key());
    all.tensors.push_back(item.value());
  }
  return all;
}

NamedTensors parameters_of(const torch::nn::Module& module) {
  return without_repeats(named_tensors(module.named_parameters()));
}

Accelerator::Impl::Impl(PartialState state_, const AcceleratorOptions& options_)
    : state(std::move(state_)),
      options(options_),
      data(chosen_data(options_)),
      accumulation(
          chosen_accumulation(options_, Environment::of_this_process())),
      checkpoints(std::make_shared<CheckpointManager>(options_)),
      thread_(std::this_thread::get_id()) {
  check_options(options);
  choose_tf32(options.allow_tf32);
  agreement_ = std::make_shared<Agreement>(state.group());
  precision =
      chosen_precision(options, Environment::of_this_process(), state.device());
  scaling = make_scaling();
}

Accelerator::Impl::~Impl() {
  end_autocast();
}

std::shared_ptr<LossScaling> Accelerator::Impl::make_scaling() const {
  return precision == Precision::fp16
             ? std::make_shared<LossScaling>(
                   options.scaler_kwargs, state.device())
             : std::make_shared<LossScaling>();
}

// Settings of the Accelerator itself stay: accumulation steps, triggers, open
// regions, checkpoint hooks.
void Accelerator::Impl::forget_prepared() {
  end_autocast();
  models.clear();
  loaders_.clear();
  optimizers_.clear();
  schedulers_.clear();
  gradients = std::make_shared<GradientState>();
  scaling = make_scaling();
  accumulation.restart();
  updates = 0;
}

void Accelerator::Impl::end_autocast() {
  for (PreparedModel& model : models) {
    if (auto* module = dynamic_cast<AutocastModule*>(model.live_module())) {
      module->set_autocast(std::nullopt);
    }
  }
  if (thread_autocast_) {
    thread_autocast_.reset();
    autocast_owner = nullptr;
  }
}

// 1. All ranks check that the models are equal.
// 2. Parameters and buffers are copied from rank 0.
// 3. Trainable parameters get a gradient path.
void Accelerator::Impl::add_model(PreparedModel model) {
  const Group& group = state.group();
  if (group.size() > 1) {
    check_same_model(group, model.parameters, model.buffers);
    group.broadcast(model.parameters.tensors);
    group.broadcast(model.buffers.tensors);
  }
  std::erase_if(models, [](const PreparedModel& known) {
    return known.module != nullptr && known.live_module() == nullptr;
  });
  const auto same = std::find_if(
      models.begin(), models.end(), [&](const PreparedModel& known) {
        return model.module != nullptr && known.module == model.module;
      });
  if (same != models.end()) {
    const SavedSums kept(same->path.get());
    same->path.reset();
    build_path(model);
    kept.move_to(model.path.get());
    *same = std::move(model);
  } else {
    build_path(model);
    models.push_back(std::move(model));
  }
}

void Accelerator::Impl::add_loader(DataLoaderBase& loader) {
  const auto known = loaders();
  if (std::find(known.begin(), known.end(), &loader) == known.end()) {
    loaders_.push_back({&loader, loader.lifetime()});
  }
}

std::vector<DataLoaderBase*> Accelerator::Impl::loaders() {
  std::erase_if(loaders_, [](const PreparedLoader& loader) {
    return loader.lifetime.expired();
  });
  std::vector<DataLoaderBase*> result;
  for (const PreparedLoader& loader : loaders_) {
    result.push_back(loader.loader);
  }
  return result;
}

void Accelerator::Impl::add_optimizer(torch::optim::Optimizer& optimizer) {
  PreparedOptimizer added;
  added.optimizer = &optimizer;
  std::set<const void*> ids;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      added.parameters.emplace_back(parameter.getIntrusivePtr());
      ids.insert(parameter.unsafeGetTensorImpl());
    }
  }
  std::erase_if(optimizers_, [&](const PreparedOptimizer& known) {
    std::set<const void*> known_ids;
    for (const auto& parameter : known.parameters) {
      known_ids.insert(parameter.lock().get());
    }
    return known.optimizer == &optimizer || known_ids == ids;
  });
  optimizers_.push_back(std::move(added));
}

std::vector<torch::optim::Optimizer*> Accelerator::Impl::optimizers() {
  std::erase_if(optimizers_, [](const PreparedOptimizer& known) {
    return std::any_of(
        known.parameters.begin(),
        known.parameters.end(),
        [](const auto& parameter) { return parameter.expired(); });
  });
  std::vector<torch::optim::Optimizer*> result;
  for (const PreparedOptimizer& known : optimizers_) {
    result.push_back(known.optimizer);
  }
  return result;
}

void Accelerator::Impl::add_scheduler(
    LRScheduler& scheduler,
    const std::shared_ptr<const SchedulerContext>& lifetime) {
  schedulers_.push_back({&scheduler, lifetime});
}

std::vector<LRScheduler*> Accelerator::Impl::schedulers() {
  std::erase_if(schedulers_, [](const PreparedScheduler& known) {
    return known.lifetime.expired();
  });
  std::vector<LRScheduler*> result;
  for (const PreparedScheduler& known : schedulers_) {
    result.push_back(known.scheduler);
  }
  return result;
}

void Accelerator::Impl::build_path(PreparedModel& model) {
  model.requires_grad.clear();
  for (const at::Tensor& parameter : model.parameters.tensors) {
    model.requires_grad.push_back(parameter.requires_grad());
  }
  NamedTensors training = trainable(model.parameters);
  if (model.evaluation_mode || training.size() == 0) {
    return;
  }
  const Group& group = state.group();
  if (group.size() == 1 && group.device_backend() == nullptr) {
    model.path = std::make_unique<LocalGradients>(std::move(training));
    return;
  }
  Reducer::Options reducer;
  reducer.buckets.bytes =
      static_cast<std::int64_t>(options.ddp_kwargs.bucket_cap_mb * (1 << 20));
  reducer.buckets.first_bytes =
      std::min(reducer.buckets.first_bytes, reducer.buckets.bytes);
  reducer.agreement = agreement_;
  reducer.buckets.wire_type = wire_type(options.ddp_kwargs.comm_hook);
  model.path = std::make_unique<Reducer>(group, std::move(training), reducer);
}

// A parameter that was added or unfrozen since `prepare` would not be
// synchronized. With one process, that matters only when gradients are
// accumulated separately.
void Accelerator::Impl::refresh_models() {
  if (!state.use_distributed() && accumulation.plugin().num_steps == 1) {
    return;
  }
  for (PreparedModel& model : models) {
    if (model.evaluation_mode) {
      continue;
    }
    const auto* module = model.live_module();
    NamedTensors now =
        module != nullptr ? parameters_of(*module) : model.parameters;
    bool changed = now.size() != model.parameters.size();
    for (std::size_t i = 0; !changed && i < now.size(); ++i) {
      changed = now.tensors[i].requires_grad() != model.requires_grad[i] ||
                !now.tensors[i].is_same(model.parameters.tensors[i]);
    }
    if (changed) {
      model.parameters = std::move(now);
      if (state.use_distributed()) {
        check_same_model(state.group(), model.parameters, model.buffers);
        state.group().broadcast(model.parameters.tensors);
      }
      const SavedSums kept(model.path.get());
      model.path.reset();
      build_path(model);
      kept.move_to(model.path.get());
    }
  }
}

// With several ranks, gradients are averaged while backward still runs, which a
// CUDA graph of the whole backward pass cannot do.
bool Accelerator::Impl::records_steps() const {
  return options.record_steps && !state.device().is_cpu() &&
         !state.use_distributed() && state.group().device_backend() == nullptr;
}

std::string Accelerator::Impl::reason_not_recorded() const {
  const bool is_reported = options.record_steps && !state.device().is_cpu() &&
                           !records_steps() && state.is_main_process();
  return is_reported ? str_cat(
                           "gradients from ",
                           state.num_processes(),
                           " processes are averaged while backward runs")
                     : "";
}

void Accelerator::Impl::prepare_autocast(torch::nn::Module& module) {
  const bool records = records_steps();
  const std::string reason = reason_not_recorded();
  if (precision == Precision::no && !records && reason.empty()) {
    return;
  }
  if (auto* autocast = dynamic_cast<AutocastModule*>(&module)) {
    autocast->set_autocast(AutocastPolicy{
        state.device().type(),
        precision,
        options.autocast_kwargs,
        records,
        reason});
    return;
  }
  if (precision == Precision::no) {
    return;
  }
  if (options.autocast_scope == AutocastScope::manual || thread_autocast_) {
    return;
  }
  const void* no_owner = nullptr;
  if (!autocast_owner.compare_exchange_strong(no_owner, this)) {
    throw StateError(
        "another Accelerator already keeps autocast enabled",
        "destroy it or call its free_memory() first, or use "
        "AutocastScope::manual");
  }
  // The weight cache of autocast would return stale weights after a step.
  AutocastKwargs kwargs = options.autocast_kwargs;
  kwargs.cache_enabled = false;
  thread_ = std::this_thread::get_id();
  thread_autocast_ =
      std::make_unique<AutocastGuard>(state.device().type(), precision, kwargs);
}

void Accelerator::Impl::check_thread() const {
  if (thread_autocast_ && std::this_thread::get_id() != thread_) {
    throw StateError(
        "backward was called in a different thread than prepare, and autocast "
        "is not enabled in that thread",
        "train in the thread that called prepare, or use "
        "AutocastScope::manual with autocast() in the thread that runs the "
        "forward pass");
  }
}

}  // namespace accelerate
