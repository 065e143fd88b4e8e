// SPDX-License-Identifier: Apache-2.0
// Checks for parameter groups and their options, shared by all optimizers.
#pragma once

#include <memory>
#include <vector>

#include <torch/optim/optimizer.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "base/str_cat.h"

namespace accelerate {

/// Returns a copy of `groups` in which a parameter that is listed several times
/// in its group is listed only once.
///
/// Throws `ArgumentError` if a parameter is undefined, is not a leaf, or is in
/// two groups.
std::vector<torch::optim::OptimizerParamGroup> checked_groups(
    const std::vector<torch::optim::OptimizerParamGroup>& groups);

/// Throws `ArgumentError` if an option is out of range.
void check_options(const AdamWOptions& options);
void check_options(const AdamOptions& options);
void check_options(const SGDOptions& options);

/// Returns the options of the parameter group at `index`. Throws
/// `ArgumentError` if these are options for a different optimizer.
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
            " passed to ",
            optimizer,
            " has options for a different optimizer"),
        str_cat(
            "create the group with `accelerate::param_group(params, "
            "accelerate::",
            optimizer,
            "Options{…})`"));
  }
  return options->values;
}

/// Checks `defaults` and the options of each parameter group that has its own
/// options. Returns `groups`.
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
