// SPDX-License-Identifier: Apache-2.0
// The functions of an `Accelerator` that save and load.
#include <utility>

#include "accelerate/tensor_map.h"
#include "accelerator/accelerator_impl.h"
#include "checkpoint/save_model.h"
#include "training/preemption.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

}  // namespace

fs::path Accelerator::save_state(const SaveStateOptions& options) {
  return impl_->checkpoints.save({}, options);
}

fs::path Accelerator::save_state(
    const fs::path& output_dir, const SaveStateOptions& options) {
  return impl_->checkpoints.save(output_dir, options);
}

void Accelerator::wait_for_checkpoint() {
  impl_->checkpoints.wait();
}

LoadStateReport Accelerator::load_state(const LoadStateOptions& options) {
  return impl_->checkpoints.load_newest(options);
}

LoadStateReport Accelerator::load_state(
    const fs::path& input_dir, const LoadStateOptions& options) {
  return impl_->checkpoints.load(input_dir, options);
}

bool Accelerator::checkpoint_requested() {
  return preemption_requested(group());
}

std::function<bool()> Accelerator::save_every(const SaveEveryOptions& options) {
  return impl_->checkpoints.save_every(options);
}

void Accelerator::register_json(
    std::function<Json()> save, std::function<void(const Json&)> load) {
  RegisteredObject object;
  object.save = std::move(save);
  object.load = std::move(load);
  impl_->checkpoints.registered().objects.push_back(std::move(object));
}

void Accelerator::register_tensors(
    std::function<TensorMap()> save,
    std::function<void(const TensorMap&)> load) {
  RegisteredObject object;
  object.save_tensors = std::move(save);
  object.load_tensors = std::move(load);
  impl_->checkpoints.registered().objects.push_back(std::move(object));
}

void Accelerator::register_random_state(
    const std::string& name,
    std::function<Tensor()> save,
    std::function<void(const Tensor&)> load) {
  impl_->checkpoints.registered().random_states[name] = {
      std::move(save), std::move(load)};
}

Region Accelerator::register_save_state_pre_hook(StateHook hook) {
  return Region(
      impl_->checkpoints.registered().save_hooks.add(std::move(hook)));
}

Region Accelerator::register_load_state_pre_hook(StateHook hook) {
  return Region(
      impl_->checkpoints.registered().load_hooks.add(std::move(hook)));
}

const ProjectConfiguration& Accelerator::project_configuration() const {
  return impl_->checkpoints.folders().configuration();
}

bool Accelerator::saves_files() const {
  return project_configuration().save_on_each_node ? is_local_main_process()
                                                   : is_main_process();
}

TensorMap Accelerator::state_dict_of(const torch::nn::Module& model) {
  return accelerate::state_dict_of(model);
}

void Accelerator::save_module(
    const torch::nn::Module& model,
    const fs::path& save_directory,
    const SaveModelOptions& options) const {
  const TensorMap weights = accelerate::state_dict_of(model);
  check_model_files(weights, save_directory);
  if (saves_files()) {
    write_model_files(weights, save_directory, options);
  }
}

}  // namespace accelerate
