// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/restored_gradients.h"

#include <algorithm>
#include <set>

#include <ATen/core/grad_mode.h>

#include "base/str_cat.h"
#include "checkpoint/checkpoint_names.h"

namespace accelerate {

RestoredGradients::RestoredGradients(
    const LoadedCheckpoint& loaded,
    const std::vector<PreparedModel>& models,
    Position position,
    AccumulationWeighting weighting)
    : loaded_(loaded),
      models_(models),
      position_(position),
      weighting_(weighting) {
  find_sources();
  check_weights();
  check_shapes();
  check_names();
}

void RestoredGradients::find_sources() {
  if (loaded_.rank_states.size() == position_.num_processes &&
      !loaded_.rank_states[position_.process_index].empty()) {
    takes_own_sums_ = true;
    sources_ = {&loaded_.rank_states[position_.process_index]};
    return;
  }
  if (loaded_.has_all_ranks()) {
    // With fixed weights, a gradient is an average over the ranks that saved,
    // so the sum is divided by their number. With other weights, it is a sum
    // that is divided by the total weight later, so the shares of all ranks
    // must add up to the saved sum.
    parts_ = static_cast<std::int64_t>(
        weighting_ == AccumulationWeighting::fixed ? loaded_.rank_states.size()
                                                   : position_.data_size);
    for (const TensorMap& rank_state : loaded_.rank_states) {
      sources_.push_back(&rank_state);
    }
    return;
  }
  // The checkpoint of one node contains only the sums of that node's ranks.
  if (std::ranges::any_of(loaded_.rank_states, [](const TensorMap& rank_state) {
        return any_name_begins(rank_state, kGradient);
      })) {
    problems_.emplace_back(
        "the checkpoint was saved on one node in the middle of gradient "
        "accumulation, so it has only the gradients from that node's "
        "processes");
  }
}

bool RestoredGradients::any() const {
  return std::ranges::any_of(sources_, [](const TensorMap* rank_state) {
    return any_name_begins(*rank_state, kGradient);
  });
}

void RestoredGradients::discard(const std::string& reason) {
  problems_.push_back(reason);
  sources_.clear();
  group_weight_ = 0;
}

void RestoredGradients::check_weights() {
  double sum = 0;
  for (const TensorMap* rank_state : sources_) {
    const auto found = rank_state->find(kGroupWeight);
    if (found == rank_state->end() || found->second.numel() != 1) {
      problems_.push_back(str_cat(
          "a process did not save `",
          kGroupWeight,
          "`, the total weight of its micro-batches so far"));
      return;
    }
    sum += found->second.item<double>();
  }
  group_weight_ =
      takes_own_sums_ ? sum : sum / static_cast<double>(position_.data_size);
}

void RestoredGradients::check_shapes() {
  for (std::size_t m = 0; m < models_.size(); ++m) {
    fits_.emplace_back();
    const std::size_t count =
        models_[m].path ? models_[m].path->parameters().size() : 0;
    for (std::size_t i = 0; i < count; ++i) {
      fits_.back().push_back(fits(m, i));
    }
  }
}

bool RestoredGradients::fits(
    const std::size_t model, const std::size_t parameter) {
  const NamedTensors& parameters = models_[model].path->parameters();
  const std::string name = gradient_name(model, parameters.names[parameter]);
  const at::Tensor& here = parameters.tensors[parameter];
  for (const TensorMap* rank_state : sources_) {
    const auto found = rank_state->find(name);
    if (found != rank_state->end() && found->second.sizes() != here.sizes()) {
      problems_.push_back(str_cat(
          numbered("model", model),
          ": the gradient of `",
          parameters.names[parameter],
          "` is ",
          type_and_shape(found->second),
          " in the checkpoint, but ",
          type_and_shape(here),
          " in this run"));
      return false;
    }
  }
  return true;
}

// Adds a problem for each saved gradient whose parameter this run does not
// train.
void RestoredGradients::check_names() {
  std::set<std::string> names;
  for (const TensorMap* rank_state : sources_) {
    for (auto next = rank_state->lower_bound(kGradient);
         next != rank_state->end() && next->first.starts_with(kGradient);
         ++next) {
      names.insert(next->first);
    }
  }
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (models_[m].path) {
      for (const std::string& name : models_[m].path->parameters().names) {
        names.erase(gradient_name(m, name));
      }
    }
  }
  for (const std::string& name : names) {
    problems_.push_back(str_cat(
        "the checkpoint has the gradient `",
        name,
        "`, but this run does not train its parameter"));
  }
}

at::Tensor RestoredGradients::sum_of(
    const std::string& name, const at::Tensor& like) const {
  at::Tensor sum;
  for (const TensorMap* rank_state : sources_) {
    const auto found = rank_state->find(name);
    if (found != rank_state->end()) {
      sum = sum.defined() ? sum.add(found->second) : found->second;
    }
  }
  if (!sum.defined()) {
    return sum;
  }
  return (parts_ == 1 ? sum : sum.div(parts_)).to(like.options());
}

void RestoredGradients::apply() const {
  const at::NoGradGuard guard;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (!models_[m].path) {
      continue;
    }
    const NamedTensors& parameters = models_[m].path->parameters();
    std::vector<at::Tensor> sums;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters.tensors[i].mutable_grad().reset();
      sums.push_back(
          fits_[m][i] ? sum_of(
                            gradient_name(m, parameters.names[i]),
                            parameters.tensors[i])
                      : at::Tensor());
    }
    models_[m].path->set_sums(sums);
  }
}

}  // namespace accelerate
