// SPDX-License-Identifier: Apache-2.0
// Collects the state of a run for a checkpoint.
#include <functional>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/optimizer_state.h"
#include "accelerator/accelerator_impl.h"
#include "accelerator/checkpoint_manager.h"
#include "accelerator/checkpoint_names.h"
#include "accelerator/random_states.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

Json states_of(const auto& objects) {
  Json states = Json::array();
  for (const auto* object : objects) {
    states.push_back(object->state_dict());
  }
  return states;
}

Json missing_names(const TensorMap& subset, const TensorMap& all) {
  Json names = Json::array();
  for (const auto& [name, tensor] : all) {
    if (!subset.contains(name)) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::string numbered(const char* name, const std::size_t index) {
  return index == 0 ? name : str_cat(name, "_", index);
}

std::string gradient_name(const std::size_t model, const std::string& name) {
  return str_cat(kGradient, model, ".", name);
}

std::string buffer_name(const std::size_t model, const std::string& name) {
  return str_cat(kBuffer, model, ".", name);
}

bool any_name_begins(const TensorMap& tensors, const char* name) {
  const auto next = tensors.lower_bound(name);
  return next != tensors.end() && next->first.starts_with(name);
}

std::string type_and_shape(const at::Tensor& tensor) {
  return str_cat(tensor.scalar_type(), tensor.sizes());
}

TensorMap merge_named(
    const NamedTensors& parameters, const NamedTensors& buffers) {
  TensorMap weights;
  for (const NamedTensors* named : {&parameters, &buffers}) {
    for (std::size_t i = 0; i < named->size(); ++i) {
      if (named->tensors[i].defined()) {
        weights.emplace(named->names[i], named->tensors[i]);
      }
    }
  }
  return weights;
}

// The forward pass of each rank may change its buffers, until one rank's
// buffers are broadcast.
NamedTensors buffers_of(const PreparedModel& model) {
  const auto* module = model.live_module();
  return module != nullptr ? named_tensors(module->named_buffers())
                           : model.buffers;
}

TensorMap weights_of(const PreparedModel& model) {
  return merge_named(model.parameters, buffers_of(model));
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters(
    const std::vector<PreparedModel>& models) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const NamedTensors& parameters = models[m].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      named.emplace_back(
          m == 0 ? parameters.names[i]
                 : str_cat("model_", m, ".", parameters.names[i]),
          parameters.tensors[i]);
    }
  }
  return named;
}

CheckpointContents Accelerator::Impl::collect_models() {
  CheckpointContents contents = collect_large();
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (!models[m].path) {
      continue;
    }
    const std::vector<at::Tensor> sums = models[m].path->sums();
    const NamedTensors& parameters = models[m].path->parameters();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].defined()) {
        contents.rank_state[gradient_name(m, parameters.names[i])] = sums[i];
      }
    }
  }
  if (has_rank_buffers()) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      for (const auto& [name, buffer] :
           merge_named({}, buffers_of(models[m]))) {
        contents.rank_state[buffer_name(m, name)] = buffer;
      }
    }
  }
  return contents;
}

// An update makes buffers equal; after it each rank has seen different rows. In
// local training, all ranks continue with the main process's parameters and the
// matching buffers.
bool Accelerator::Impl::has_rank_buffers() const {
  const bool are_equal = options.ddp_kwargs.broadcast_buffers &&
                         gradients->sync_gradients && no_sync_depth == 0;
  return state.use_distributed() && !are_equal && local_trainers == 0;
}

CheckpointContents Accelerator::Impl::collect_large() {
  CheckpointContents contents;
  contents.step = updates;
  contents.process_index = static_cast<int>(state.process_index());
  contents.num_processes = static_cast<int>(state.num_processes());
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::string name = numbered("model", m);
    contents.weights[name] = merge_named(models[m].parameters, {});
    contents.main_weights[name] = merge_named({}, buffers_of(models[m]));
  }
  const auto all_optimizers = optimizers();
  const auto named = named_parameters(models);
  for (std::size_t o = 0; o < all_optimizers.size(); ++o) {
    const auto names = parameter_names(*all_optimizers[o], named);
    OptimizerState saved = optimizer_state(*all_optimizers[o], names);
    contents.ranges[numbered("optimizer", o)] = std::move(saved.tensors);
    contents.documents[numbered("optimizer", o)] = std::move(saved.scalars);
  }
  return contents;
}

CheckpointContents Accelerator::Impl::collect() {
  for (const LRScheduler* scheduler : schedulers()) {
    // The optimizers' learning rates are saved first.
    scheduler->resolve_pending_steps();
  }
  CheckpointContents contents = collect_models();
  const auto all_loaders = loaders();
  if (!all_loaders.empty()) {
    contents.epoch = all_loaders.front()->state_dict().at("epoch").as_integer();
  }
  contents.documents["schedulers"] = states_of(schedulers());
  contents.documents["loaders"] = states_of(all_loaders);
  scaling->update_scale();
  if (auto* scaler = scaling->scaler()) {
    contents.documents["scaler"] = scaler->state_dict();
  }
  Json registered = Json::array();
  for (std::size_t i = 0; i < checkpoints->registered.size(); ++i) {
    const RegisteredObject& object = checkpoints->registered[i];
    registered.push_back(object.save ? object.save() : Json());
    if (object.save_tensors) {
      const std::string name = str_cat("registered_", i);
      contents.weights[name];
      contents.main_weights[name] = object.save_tensors();
    }
  }
  contents.documents["registered"] = std::move(registered);
  contents.documents["run"] = Json::object(
      {{"accumulation", accumulation.state_dict()},
       {"sync_gradients", gradients->sync_gradients},
       {"models", models.size()},
       {"optimizers", optimizers().size()}});
  contents.rank_state[kRandomState] = random_state(c10::Device(c10::kCPU));
  if (!state.device().is_cpu()) {
    contents.rank_state[kDeviceRandomState] = random_state(state.device());
  }
  for (const auto& [name, random] : checkpoints->random_states) {
    contents.rank_state[str_cat(kOtherRandomState, name)] = random.save();
  }
  contents.rank_state[kGroupWeight] =
      at::full({1}, accumulation.group_weight(), at::kDouble);
  return contents;
}

std::vector<TensorMap> Accelerator::Impl::model_weights(
    const CheckpointContents& contents) const {
  std::vector<TensorMap> weights;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::string name = numbered("model", m);
    weights.push_back(contents.weights.at(name));
    const TensorMap& main_weights = contents.main_weights.at(name);
    weights.back().insert(main_weights.begin(), main_weights.end());
  }
  return weights;
}

void Accelerator::Impl::take_hooked_weights(
    CheckpointContents& contents, std::vector<TensorMap> weights) const {
  weights.resize(models.size());
  Json kept_out = Json::array();
  bool any = false;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::string name = numbered("model", m);
    kept_out.push_back(missing_names(weights[m], weights_of(models[m])));
    any = any || kept_out.at(m).size() > 0;
    contents.weights[name].clear();
    contents.main_weights[name] = std::move(weights[m]);
  }
  if (any) {
    contents.documents["run"][kKeptOut] = std::move(kept_out);
  }
}

}  // namespace accelerate
