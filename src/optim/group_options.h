// SPDX-License-Identifier: Apache-2.0
// Checks and copies of parameter groups, shared by our optimizers.
#pragma once

#include <memory>
#include <vector>

#include <torch/optim/optimizer.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "base/str_cat.h"

namespace accelerate {

/// The groups with each parameter once.
///
/// Throws `ArgumentError` for one that is undefined, no leaf, or in two groups.
std::vector<torch::optim::OptimizerParamGroup> checked_groups(
    const std::vector<torch::optim::OptimizerParamGroup>& groups);

/// Throws `ArgumentError` unless the value is in range.
void check_options(const AdamWOptions& options);
void check_options(const AdamOptions& options);
void check_options(const SGDOptions& options);

/// The options of a group; throws `ArgumentError` when they are those of
/// another optimizer.
template <typename Values>
const Values& options_of(
    const torch::optim::OptimizerParamGroup& group,
    std::size_t index,
    const char* optimizer) {
  const auto* options =
      dynamic_cast<const ParamGroupOptions<Values>*>(&group.options());
  if (options == nullptr) {
    throw ArgumentError(
        str_cat(
            "parameter group ",
            index,
            " of ",
            optimizer,
            " has the options of another optimizer"),
        str_cat(
            "make it with `accelerate::param_group(params, accelerate::",
            optimizer,
            "Options{…})`"));
  }
  return options->values;
}

/// Checks the options of all groups that have some.
template <typename Values>
const std::vector<torch::optim::OptimizerParamGroup>& with_checked_options(
    const std::vector<torch::optim::OptimizerParamGroup>& groups,
    const Values& defaults,
    const char* optimizer) {
  check_options(defaults);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].has_options()) {
      check_options(options_of<Values>(groups[i], i, optimizer));
    }
  }
  return groups;
}

}  // namespace accelerate
