// SPDX-License-Identifier: Apache-2.0
#include "accelerator/restored_gradients.h"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>

#include "accelerator/run_names.h"
#include "base/str_cat.h"

namespace accelerate {

RestoredGradients::RestoredGradients(
    const LoadedCheckpoint& loaded,
    const std::vector<PreparedModel>& models,
    Place place,
    AccumulationWeighting weighting)
    : loaded_(loaded), models_(models), place_(place), weighting_(weighting) {
  find_sources();
  check_weights();
  check_shapes();
  check_names();
}

void RestoredGradients::find_sources() {
  if (loaded_.own.size() == place_.ranks && !loaded_.own[place_.rank].empty()) {
    takes_own_ = true;
    sources_ = {&loaded_.own[place_.rank]};
    return;
  }
  if (loaded_.has_all_ranks()) {
    // Fixed weights are those of a mean over the ranks of a micro-step, which
    // were those that saved. With others the update is one sum over
    // everything, divided by its weight: the parts add up to what was saved.
    parts_ = static_cast<std::int64_t>(
        weighting_ == AccumulationWeighting::fixed ? loaded_.own.size()
                                                   : place_.ranks);
    for (const TensorMap& own : loaded_.own) {
      sources_.push_back(&own);
    }
    return;
  }
  // A checkpoint of one node has the sums of its own ranks alone.
  if (std::ranges::any_of(loaded_.own, [](const TensorMap& own) {
        return any_name_begins(own, kGradient);
      })) {
    problems_.emplace_back(
        "the checkpoint of one node, saved in the middle of an accumulation, "
        "has the gradients of that node's processes only");
  }
}

bool RestoredGradients::any() const {
  return std::ranges::any_of(sources_, [](const TensorMap* own) {
    return any_name_begins(*own, kGradient);
  });
}

void RestoredGradients::discard(const std::string& why) {
  problems_.push_back(why);
  sources_.clear();
  group_weight_ = 0;
}

void RestoredGradients::check_weights() {
  double sum = 0;
  for (const TensorMap* own : sources_) {
    const auto found = own->find(kGroupWeight);
    if (found == own->end() || found->second.numel() != 1) {
      problems_.push_back(str_cat(
          "a process has saved no `",
          kGroupWeight,
          "`, what its part of an accumulation weighs"));
      return;
    }
    sum += found->second.item<double>();
  }
  group_weight_ = takes_own_ ? sum : sum / static_cast<double>(place_.ranks);
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
  for (const TensorMap* own : sources_) {
    const auto found = own->find(name);
    if (found != own->end() && found->second.sizes() != here.sizes()) {
      problems_.push_back(str_cat(
          numbered("model", model),
          ": the gradient of `",
          parameters.names[parameter],
          "` is ",
          type_and_shape(found->second),
          ", in this run ",
          type_and_shape(here)));
      return false;
    }
  }
  return true;
}

// Gradients of what this run does not train.
void RestoredGradients::check_names() {
  std::set<std::string> names;
  for (const TensorMap* own : sources_) {
    for (auto next = own->lower_bound(kGradient);
         next != own->end() && next->first.starts_with(kGradient);
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
    problems_.push_back(str_cat("this run has no use for `", name, "`"));
  }
}

at::Tensor RestoredGradients::sum_of(
    const std::string& name, const at::Tensor& like) const {
  at::Tensor sum;
  for (const TensorMap* own : sources_) {
    const auto found = own->find(name);
    if (found != own->end()) {
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
