// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/run_state.h"

#include <map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "accelerate/data_loader_base.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/optimizer_state.h"
#include "base/str_cat.h"
#include "checkpoint/checkpoint_names.h"
#include "training/random_states.h"

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

// The parameter that a tensor named `<parameter>.<slot>` belongs to.
const at::Tensor* parameter_of(
    const std::string& name,
    const std::map<std::string, at::Tensor>& parameters) {
  for (auto end = name.rfind('.'); end != std::string::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    const auto found = parameters.find(name.substr(0, end));
    if (found != parameters.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

// The part of an optimizer's state that this rank saves. A state tensor is
// divided among ranks only if it has as many elements as its parameter; every
// rank has all other state tensors.
std::vector<TensorRange> owned_ranges(
    const TensorMap& state,
    const std::vector<std::pair<std::string, at::Tensor>>& named,
    const Strategy& strategy) {
  const std::map<std::string, at::Tensor> parameters(
      named.begin(), named.end());
  std::vector<TensorRange> ranges;
  for (TensorRange& range : replicated(state)) {
    const at::Tensor* parameter = parameter_of(range.name, parameters);
    if (parameter != nullptr && parameter->numel() == range.values.numel()) {
      const FlatRange owned = strategy.owned_range(*parameter);
      if (owned.length == 0 && parameter->numel() > 0) {
        continue;
      }
      if (owned.length < parameter->numel()) {
        range.offset = owned.offset;
        range.values =
            range.values.flatten().narrow(0, owned.offset, owned.length);
        range.owner = RangeOwner::this_rank;
      }
    }
    ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace

CheckpointContents RunState::collect_large() const {
  const std::vector<PreparedModel>& models = run_.objects.models();
  CheckpointContents contents;
  contents.step = run_.training.updates();
  contents.process_index = static_cast<int>(run_.state.process_index());
  contents.num_processes = static_cast<int>(run_.state.num_processes());
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::string name = numbered("model", m);
    contents.weights[name] = merge_named(models[m].parameters, {});
    contents.main_weights[name] = merge_named({}, models[m].current_buffers());
  }
  const auto optimizers = run_.objects.optimizers();
  const auto named = named_parameters(models);
  for (std::size_t o = 0; o < optimizers.size(); ++o) {
    const auto names = parameter_names(*optimizers[o], named);
    OptimizerState saved = optimizer_state(*optimizers[o], names);
    contents.ranges[numbered("optimizer", o)] =
        owned_ranges(saved.tensors, named, run_.strategy);
    contents.documents[numbered("optimizer", o)] = std::move(saved.scalars);
  }
  return contents;
}

CheckpointContents RunState::collect_models() const {
  const std::vector<PreparedModel>& models = run_.objects.models();
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
  if (run_.training.has_rank_buffers()) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      for (const auto& [name, buffer] :
           merge_named({}, models[m].current_buffers())) {
        contents.rank_state[buffer_name(m, name)] = buffer;
      }
    }
  }
  return contents;
}

CheckpointContents RunState::collect() const {
  for (const LRScheduler* scheduler : run_.objects.schedulers()) {
    // This call may correct the optimizers' learning rates, which are saved
    // next.
    scheduler->resolve_pending_steps();
  }
  CheckpointContents contents = collect_models();
  const auto loaders = run_.objects.loaders();
  if (!loaders.empty()) {
    contents.epoch = loaders.front()->state_dict().at("epoch").as_integer();
  }
  add_documents(contents);
  add_registered_objects(contents);
  add_random_states(contents);
  contents.rank_state[kGroupWeight] =
      at::full({1}, run_.training.accumulation().group_weight(), at::kDouble);
  return contents;
}

void RunState::add_documents(CheckpointContents& contents) const {
  contents.documents["schedulers"] = states_of(run_.objects.schedulers());
  contents.documents["loaders"] = states_of(run_.objects.loaders());
  LossScaling& scaling = *run_.training.scaling();
  scaling.update_scale();
  if (auto* scaler = scaling.scaler()) {
    contents.documents["scaler"] = scaler->state_dict();
  }
  contents.documents["run"] = Json::object(
      {{"accumulation", run_.training.accumulation().state_dict()},
       {"sync_gradients", run_.training.gradients()->sync_gradients},
       {"models", run_.objects.models().size()},
       {"optimizers", run_.objects.optimizers().size()}});
  for (const auto& [name, document] : registered_.run_documents) {
    if (Json saved = document.save(); !saved.is_null()) {
      contents.documents["run"][name] = std::move(saved);
    }
  }
}

void RunState::add_registered_objects(CheckpointContents& contents) const {
  Json states = Json::array();
  for (std::size_t i = 0; i < registered_.objects.size(); ++i) {
    const RegisteredObject& object = registered_.objects[i];
    states.push_back(object.save ? object.save() : Json());
    if (object.save_tensors) {
      const std::string name = str_cat("registered_", i);
      contents.weights[name];
      contents.main_weights[name] = object.save_tensors();
    }
  }
  contents.documents["registered"] = std::move(states);
}

void RunState::add_random_states(CheckpointContents& contents) const {
  contents.rank_state[kRandomState] = random_state(c10::Device(c10::kCPU));
  if (!run_.state.device().is_cpu()) {
    contents.rank_state[kDeviceRandomState] = random_state(run_.state.device());
  }
  for (const auto& [name, random] : registered_.random_states) {
    contents.rank_state[str_cat(kOtherRandomState, name)] = random.save();
  }
}

std::vector<TensorMap> RunState::model_weights(
    const CheckpointContents& contents) const {
  std::vector<TensorMap> weights;
  for (std::size_t m = 0; m < run_.objects.models().size(); ++m) {
    const std::string name = numbered("model", m);
    weights.push_back(contents.weights.at(name));
    const TensorMap& main_weights = contents.main_weights.at(name);
    weights.back().insert(main_weights.begin(), main_weights.end());
  }
  return weights;
}

void RunState::take_hooked_weights(
    CheckpointContents& contents, std::vector<TensorMap> weights) const {
  const std::vector<PreparedModel>& models = run_.objects.models();
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
