// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/restored_weights.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "checkpoint/checkpoint_names.h"
#include "checkpoint/large_copies.h"

namespace accelerate {
namespace {

// Uses the buffers that this rank saved, because the model's file contains only
// the buffers of rank 0.
void take_rank_buffers(
    TensorMap& weights, const TensorMap& rank_state, const std::size_t model) {
  for (auto& [name, tensor] : weights) {
    const auto found = rank_state.find(buffer_name(model, name));
    if (found != rank_state.end() && found->second.sizes() == tensor.sizes() &&
        found->second.scalar_type() == tensor.scalar_type()) {
      tensor = found->second;
    }
  }
}

}  // namespace

RestoredWeights::RestoredWeights(
    const LoadedCheckpoint& loaded,
    const std::vector<PreparedModel>& models,
    const TensorMap* rank_state,
    const CheckpointHooks& hooks,
    const std::filesystem::path& folder)
    : weights_(models.size()), has_hooks_(!hooks.empty()) {
  take(loaded, rank_state);
  run_hooks(hooks, folder);
  const Json& run = loaded.documents.at("run");
  read_kept_out(run);
  const auto saved = static_cast<std::size_t>(run.at("models").as_integer());
  if (saved != models.size()) {
    problems_.push_back(str_cat(
        "different numbers of models: ",
        saved,
        " in the checkpoint, ",
        models.size(),
        " in this run"));
  }
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (has_file_[m] || m < saved) {
      check_model(m, models[m]);
    }
  }
}

void RestoredWeights::take(
    const LoadedCheckpoint& loaded, const TensorMap* rank_state) {
  for (std::size_t m = 0; m < weights_.size(); ++m) {
    const std::string key = numbered("model", m);
    // A checkpoint contains the weights as whole tensors or as ranges.
    const auto& saved =
        loaded.ranges.contains(key) ? loaded.ranges : loaded.weights;
    const auto found = saved.find(key);
    has_file_.push_back(found != saved.end());
    if (has_file_.back()) {
      weights_[m] = found->second;
    }
    if (rank_state != nullptr) {
      take_rank_buffers(weights_[m], *rank_state, m);
    }
  }
}

void RestoredWeights::run_hooks(
    const CheckpointHooks& hooks, const std::filesystem::path& folder) {
  const std::vector<TensorMap> before = weights_;
  try {
    hooks.run(weights_, folder);
  } catch (const std::exception& error) {
    throw StateError(str_cat("a load hook threw: ", error.what()));
  }
  weights_.resize(before.size());
  for (std::size_t m = 0; m < before.size(); ++m) {
    for (const auto& [name, tensor] : before[m]) {
      if (!weights_[m].contains(name)) {
        hooked_.insert({m, name});
      }
    }
  }
}

// Reads the names of the weights that save hooks removed.
void RestoredWeights::read_kept_out(const Json& run) {
  const Json* models = run.find(kKeptOut);
  for (std::size_t m = 0; models != nullptr && m < models->size(); ++m) {
    for (const Json& name : models->at(m).as_array()) {
      kept_out_.insert({m, name.as_string()});
    }
  }
}

void RestoredWeights::check_model(
    const std::size_t index, const PreparedModel& model) {
  TensorMap& saved = weights_[index];
  const std::string label = numbered("model", index);
  for (const auto& [name, here] : weights_of(model)) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      check_missing({index, name});
    } else {
      check_weight(label, name, here, found->second);
      saved.erase(found);
    }
  }
  for (const auto& [name, tensor] : saved) {
    problems_.push_back(
        str_cat(label, ": this run has no weight `", name, "`"));
  }
}

// Without `strict`, a weight of another type is listed and converted.
void RestoredWeights::check_weight(
    const std::string& label,
    const std::string& name,
    const at::Tensor& here,
    const at::Tensor& saved) {
  if (saved.sizes() != here.sizes() ||
      saved.scalar_type() != here.scalar_type()) {
    problems_.push_back(str_cat(
        label,
        ": weight `",
        name,
        "` is ",
        type_and_shape(saved),
        " in the checkpoint, but ",
        type_and_shape(here),
        " in this run"));
  }
  if (saved.sizes() == here.sizes()) {
    copies_.emplace_back(here, saved);
  }
}

// Adds a problem for a weight that is not loaded, unless hooks removed it.
void RestoredWeights::check_missing(const Weight& weight) {
  const bool kept_out = kept_out_.contains(weight);
  if (hooked_.contains(weight) || (kept_out && has_hooks_)) {
    return;
  }
  const auto& [model, name] = weight;
  if (!has_file_[model]) {
    add_missing_file(model);
    return;
  }
  problems_.push_back(str_cat(
      numbered("model", model),
      kept_out ? ": a hook removed `" : ": the checkpoint has no weight `",
      name,
      kept_out
          ? "` from the checkpoint, and this run has no load hook to restore it"
          : "`"));
}

// Adds one problem for the whole model, not one for each weight.
void RestoredWeights::add_missing_file(const std::size_t model) {
  const std::string label = numbered("model", model);
  const std::string text = str_cat(
      label,
      ": the checkpoint was saved with this model, but has no file `",
      label,
      ".safetensors`");
  if (problems_.empty() || problems_.back() != text) {
    problems_.push_back(text);
  }
}

void RestoredWeights::apply() const {
  for (const auto& [to, from] : copies_) {
    copy_large(to, from);
  }
}

}  // namespace accelerate
