// SPDX-License-Identifier: Apache-2.0
#include "accelerator/restored_weights.h"

#include "accelerate/error.h"
#include "accelerator/run_names.h"
#include "base/str_cat.h"
#include "checkpoint/large_copies.h"

namespace accelerate {
namespace {

// The model's file has the buffers of one rank.
void take_own_buffers(
    TensorMap& weights, const TensorMap& own, const std::size_t model) {
  for (auto& [name, tensor] : weights) {
    const auto mine = own.find(buffer_name(model, name));
    if (mine != own.end() && mine->second.sizes() == tensor.sizes() &&
        mine->second.scalar_type() == tensor.scalar_type()) {
      tensor = mine->second;
    }
  }
}

}  // namespace

RestoredWeights::RestoredWeights(
    const LoadedCheckpoint& loaded,
    const std::vector<PreparedModel>& models,
    const TensorMap* own,
    const Hooks& hooks,
    const std::filesystem::path& folder)
    : weights_(models.size()), has_hooks_(!hooks.empty()) {
  take(loaded, own);
  run_hooks(hooks, folder);
  const Json& run = loaded.documents.at("run");
  read_kept_out(run);
  const auto saved = static_cast<std::size_t>(run.at("models").as_integer());
  if (saved != models.size()) {
    problems_.push_back(str_cat(
        "the checkpoint has ", saved, " models, this run has ", models.size()));
  }
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (is_saved_[m]) {
      check_model(m, models[m]);
    }
  }
}

void RestoredWeights::take(
    const LoadedCheckpoint& loaded, const TensorMap* own) {
  for (std::size_t m = 0; m < weights_.size(); ++m) {
    const auto found = loaded.weights.find(numbered("model", m));
    is_saved_.push_back(found != loaded.weights.end());
    if (is_saved_.back()) {
      weights_[m] = found->second;
    }
    if (own != nullptr) {
      take_own_buffers(weights_[m], *own, m);
    }
  }
}

void RestoredWeights::run_hooks(
    const Hooks& hooks, const std::filesystem::path& folder) {
  const std::vector<TensorMap> before = weights_;
  try {
    for (const auto& hook : hooks) {
      hook(weights_, folder);
    }
  } catch (const std::exception& error) {
    throw StateError(str_cat("a hook threw: ", error.what()));
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

// What hooks of the saved run took out, to keep it elsewhere or not at all.
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
    problems_.push_back(str_cat(label, ": this run has no `", name, "`"));
  }
}

// One of another type is converted where that was asked for, and listed.
void RestoredWeights::check_weight(
    const std::string& label,
    const std::string& name,
    const at::Tensor& here,
    const at::Tensor& saved) {
  if (saved.sizes() != here.sizes() ||
      saved.scalar_type() != here.scalar_type()) {
    problems_.push_back(str_cat(
        label,
        ": `",
        name,
        "` is ",
        type_and_shape(saved),
        ", in this run ",
        type_and_shape(here)));
  }
  if (saved.sizes() == here.sizes()) {
    copies_.emplace_back(here, saved);
  }
}

// A weight of this run that is not loaded, which may be what hooks want.
void RestoredWeights::check_missing(const Weight& weight) {
  const bool kept_out = kept_out_.contains(weight);
  if (hooked_.contains(weight) || (kept_out && has_hooks_)) {
    return;
  }
  const auto& [model, name] = weight;
  problems_.push_back(str_cat(
      numbered("model", model),
      kept_out ? ": a hook kept `" : ": the checkpoint has no `",
      name,
      kept_out ? "` out of the checkpoint, and this run has no hook that could "
                 "load it"
               : "`"));
}

void RestoredWeights::apply() const {
  for (const auto& [to, from] : copies_) {
    copy_large(to, from);
  }
}

}  // namespace accelerate
