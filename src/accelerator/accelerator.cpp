// SPDX-License-Identifier: Apache-2.0
#include "accelerate/accelerator.h"

#include <exception>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/autocast.h"
#include "accelerate/clip_grad.h"
#include "accelerate/data_loader_base.h"
#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "accelerator/accelerator_impl.h"
#include "accelerator/graphed_function.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "device/out_of_memory.h"
#include "optim/scheduler_context.h"
#include "parallel/model_sync.h"

namespace accelerate {
namespace {

PartialState make_state(const AcceleratorOptions& options) {
  return PartialState(PartialStateOptions{
      .cpu = options.cpu,
      .device = options.device,
      .init_process_group = options.init_process_group_kwargs});
}

// Returns each gradient once, although a tied weight is listed under each of
// its names.
std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> gradients;
  std::set<const void*> seen;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.grad().defined() &&
        seen.insert(tensor.unsafeGetTensorImpl()).second) {
      gradients.push_back(tensor.grad());
    }
  }
  return gradients;
}

}  // namespace

Region::Region(std::function<void()> at_end) : at_end_(std::move(at_end)) {
}

Region::Region(Region&& other) noexcept
    : at_end_(std::exchange(other.at_end_, nullptr)) {
}

Region::~Region() {
  print_errors_of([this] { end(); });
}

void Region::end() {
  if (const auto at_end = std::exchange(at_end_, nullptr)) {
    at_end();
  }
}

Accelerator::Accelerator(const AcceleratorOptions& options)
    : Accelerator(make_state(options), options) {
}

Accelerator::Accelerator(PartialState state, const AcceleratorOptions& options)
    : impl_(std::make_unique<Impl>(std::move(state), options)) {
}

Accelerator::~Accelerator() = default;

void Accelerator::prepare_model(
    torch::nn::Module& model, const PrepareModelOptions& options) {
  if (options.device_placement.value_or(impl_->options.device_placement)) {
    with_memory_errors(device(), [&] { model.to(device()); });
  }
  PreparedModel prepared(model);
  prepared.evaluation_mode = options.evaluation_mode;
  impl_->objects.add_model(std::move(prepared));
  impl_->set_up(model);
}

void Accelerator::convert_batch_norms_of(torch::nn::Module& model) {
  impl_->training.batch_norms().convert(model);
}

void Accelerator::prepare_parameters(
    const std::vector<std::string>& names,
    const std::vector<Tensor>& tensors,
    const std::vector<Tensor>& buffers) {
  if (names.size() != tensors.size()) {
    throw ArgumentError(
        str_cat(
            "prepare_parameters got different numbers of names (",
            names.size(),
            ") and tensors (",
            tensors.size(),
            ")"),
        "pass one name per tensor");
  }
  PreparedModel prepared;
  prepared.parameters = without_repeats({names, tensors});
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    prepared.buffers.names.push_back(str_cat("buffer.", i));
    prepared.buffers.tensors.push_back(buffers[i]);
  }
  impl_->objects.add_model(std::move(prepared));
}

void Accelerator::prepare_optimizer(torch::optim::Optimizer& optimizer) {
  remove_repeated_parameters(optimizer);
  impl_->training.scaling()->attach(optimizer);
  impl_->objects.add_optimizer(optimizer);
}

void Accelerator::prepare_scheduler(LRScheduler& scheduler) {
  if (scheduler.is_attached()) {
    return;
  }
  auto context = impl_->training.make_scheduler_context();
  context->split_batches = split_batches();
  context->step_with_optimizer = impl_->options.step_scheduler_with_optimizer;
  context->unit = impl_->options.scheduler_unit;
  if (context->steps_per_call() > 1 && is_main_process()) {
    print_line(describe_unit(*context));
  }
  impl_->objects.add_scheduler(scheduler, context);
  scheduler.attach(std::move(context));
}

void Accelerator::prepare_data_loader(
    DataLoaderBase& loader, std::optional<bool> device_placement) {
  ShardOptions shard;
  const Mesh& mesh = impl_->data_mesh();
  shard.process_index = mesh.data_rank();
  shard.num_processes = mesh.data_size();
  shard.devices_per_process = mesh.devices_per_rank();
  shard.group = mesh.data_group();
  if (device_placement.value_or(impl_->options.device_placement)) {
    shard.device = device();
  }
  shard.configuration = impl_->data;
  shard.rng_types = impl_->options.rng_types;
  shard.gradient_state = impl_->training.gradients();
  loader.shard(shard);
  impl_->objects.add_loader(loader);
}

void Accelerator::backward(const Tensor& loss, const BackwardOptions& options) {
  with_memory_errors(device(), [&] {
    if (impl_->training.backward(loss, options)) {
      impl_->checkpoints.reserve_memory();
    }
  });
}

Region Accelerator::accumulate() {
  return begin_micro_step(std::nullopt);
}

Region Accelerator::accumulate(double weight) {
  return begin_micro_step(weight);
}

Region Accelerator::begin_micro_step(std::optional<double> weight) {
  TrainingStep& training = impl_->training;
  training.begin_micro_step(weight);
  return Region([&training] { training.end_micro_step(); });
}

detail::GraphedFunction Accelerator::make_graph(const GraphOptions& options) {
  return detail::GraphedFunction(
      std::make_shared<detail::GraphedFunction::Impl>(*impl_, options));
}

Region Accelerator::no_sync() {
  SyncRegions& regions = impl_->training.regions();
  regions.begin_no_sync();
  return Region([&regions] { regions.end_no_sync(); });
}

Region Accelerator::train_locally() {
  SyncRegions& regions = impl_->training.regions();
  regions.begin_local_training();
  return Region([&regions] { regions.end_local_training(); });
}

void Accelerator::check_prepared(
    const torch::nn::Module& model, const char* caller) const {
  if (!impl_->objects.contains(model)) {
    throw StateError(
        str_cat(caller, " got a model that was not prepared"),
        "pass it to prepare() first");
  }
}

Region Accelerator::no_sync_of(const torch::nn::Module& model) {
  check_prepared(model, "no_sync");
  SyncRegions& regions = impl_->training.regions();
  regions.begin_no_sync(model);
  return Region([&regions, &model] { regions.end_no_sync(model); });
}

void Accelerator::trigger_sync_in_backward() {
  impl_->training.regions().trigger();
}

Region Accelerator::join_uneven_inputs(std::optional<bool> even_batches) {
  if (use_distributed() &&
      impl_->training.accumulation().plugin().sync_each_batch) {
    throw UnsupportedError(
        "`join_uneven_inputs` does not work with `sync_each_batch`: a process "
        "without batches does not know which backward passes of the other "
        "processes synchronize gradients",
        "set `sync_each_batch` to false");
  }
  if (impl_->training.batch_norms().communicate()) {
    throw UnsupportedError(
        "`join_uneven_inputs` does not work with synchronized batch norm: "
        "every process must take part in each forward pass, but a process "
        "without batches runs none",
        "give every process the same number of batches, or do not call "
        "`convert_sync_batchnorm`");
  }
  std::vector<std::pair<DataLoaderBase*, bool>> before;
  for (DataLoaderBase* loader : impl_->objects.loaders()) {
    before.emplace_back(loader, loader->even_batches());
    loader->set_even_batches(even_batches.value_or(loader->even_batches()));
  }
  impl_->training.begin_joining();
  const int exceptions = std::uncaught_exceptions();
  return Region([this, before, exceptions] {
    for (const auto& [loader, even] : before) {
      loader->set_even_batches(even);
    }
    // After an exception, does not wait for the other processes: they detect
    // that this process exited.
    if (std::uncaught_exceptions() == exceptions) {
      impl_->training.join();
    }
    impl_->training.stop_joining();
  });
}

Tensor Accelerator::clip_grad_norm_(
    const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  const at::NoGradGuard guard;
  return clip_grad_norm(
      gradients_of(parameters), max_norm, {.norm_type = norm_type});
}

void Accelerator::clip_grad_value_(
    const std::vector<Tensor>& parameters, double clip_value) {
  const at::NoGradGuard guard;
  clip_grad_value(gradients_of(parameters), clip_value);
}

std::unique_ptr<AutocastGuard> Accelerator::autocast(
    const AutocastKwargs& kwargs) {
  return impl_->precision.guard(kwargs);
}

// Only the first `valid_rows()` rows of a loader's batch are real.
std::vector<Tensor> Accelerator::gather_real_rows(
    const std::vector<Tensor>& tensors) const {
  const LoaderPosition* loader = impl_->training.gradients()->active();
  std::vector<Tensor> rows = tensors;
  if (loader != nullptr && loader->valid_rows() < loader->rows()) {
    for (Tensor& tensor : rows) {
      if (tensor.dim() > 0 && tensor.size(0) == loader->rows()) {
        tensor = tensor.narrow(0, 0, loader->valid_rows());
      }
    }
  }
  return impl_->data_mesh().data_group().gather(rows);
}

std::vector<Json> Accelerator::gather_for_metrics(
    const std::vector<Json>& objects) const {
  const LoaderPosition* loader = impl_->training.gradients()->active();
  std::vector<Json> real = objects;
  if (loader != nullptr &&
      static_cast<std::int64_t>(objects.size()) == loader->rows()) {
    real.resize(static_cast<std::size_t>(loader->valid_rows()));
  }
  return impl_->data_mesh().data_group().gather_object(real);
}

std::unique_ptr<Profiler> Accelerator::profile() const {
  return profile(impl_->options.profile_kwargs);
}

std::unique_ptr<Profiler> Accelerator::profile(
    const ProfileKwargs& kwargs) const {
  return std::make_unique<Profiler>(kwargs, process_index());
}

void Accelerator::init_trackers(
    const std::string& project_name,
    const Json& config,
    const Json& init_kwargs) {
  impl_->trackers.init(project_name, config, init_kwargs);
}

void Accelerator::log(
    const LogValues& values, const LogValuesOptions& options) {
  impl_->trackers.log(values, options);
}

void Accelerator::log_images(
    const LogValues& values, const LogImagesOptions& options) {
  impl_->trackers.log_images(values, options);
}

void Accelerator::log_table(
    const std::string& table_name,
    const std::vector<std::string>& columns,
    const std::vector<std::vector<Json>>& rows,
    const LogValuesOptions& options) {
  TrackedTable table;
  table.key = table_name;
  table.columns = columns;
  table.rows = rows;
  impl_->trackers.log_table(std::move(table), options);
}

std::shared_ptr<GeneralTracker> Accelerator::get_tracker(
    const std::string& name) const {
  return impl_->trackers.get(name);
}

void Accelerator::finish_trackers() {
  impl_->trackers.finish();
}

void Accelerator::set_trigger() {
  impl_->triggered = true;
}

bool Accelerator::check_trigger() {
  const auto local = at::full({1}, impl_->triggered ? 1 : 0, at::kLong);
  const auto all = group().reduce({local});
  impl_->triggered = false;
  return all[0].item<std::int64_t>() > 0;
}

const PartialState& Accelerator::state() const {
  return impl_->state;
}
std::int64_t Accelerator::step() const {
  return impl_->training.updates();
}
Precision Accelerator::mixed_precision() const {
  return impl_->precision.precision();
}

bool Accelerator::sync_gradients() const {
  return impl_->training.gradients()->sync_gradients;
}
void Accelerator::set_sync_gradients(bool sync) {
  impl_->training.gradients()->sync_gradients = sync;
}
std::int64_t Accelerator::gradient_accumulation_steps() const {
  return impl_->training.accumulation().plugin().num_steps;
}
void Accelerator::set_gradient_accumulation_steps(std::int64_t steps) {
  impl_->training.accumulation().set_num_steps(steps);
}
bool Accelerator::optimizer_step_was_skipped() const {
  return impl_->training.scaling()->step_was_skipped();
}
bool Accelerator::split_batches() const {
  return impl_->data.split_batches;
}
std::optional<bool> Accelerator::dispatch_batches() const {
  return impl_->data.dispatch_batches;
}
bool Accelerator::even_batches() const {
  return impl_->data.even_batches;
}
void Accelerator::set_even_batches(bool even) {
  impl_->data.even_batches = even;
  for (DataLoaderBase* loader : impl_->objects.loaders()) {
    loader->set_even_batches(even);
  }
}
bool Accelerator::use_seedable_sampler() const {
  return impl_->data.use_seedable_sampler;
}
bool Accelerator::non_blocking() const {
  return impl_->data.non_blocking;
}

void Accelerator::forget_prepared() {
  wait_for_checkpoint();
  impl_->forget_prepared();
}

void Accelerator::end_training() {
  wait_for_checkpoint();
  impl_->checkpoints.close_writer();
  finish_trackers();
  wait_for_everyone();
  impl_->objects.clear_models();
  impl_->state.destroy_process_group();
}

}  // namespace accelerate
