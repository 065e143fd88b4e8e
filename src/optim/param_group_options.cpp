// SPDX-License-Identifier: Apache-2.0
#include "optim/param_group_options.h"

#include <string_view>
#include <unordered_map>

namespace accelerate {
namespace {

using Group = torch::optim::OptimizerParamGroup;

void check_at_least_zero(std::string_view name, double value) {
  if (!(value >= 0)) {
    throw ArgumentError(
        str_cat("`", name, "` is ", value), "pass 0 or a positive number");
  }
}

void check_beta(std::size_t index, double value) {
  if (!(value >= 0 && value < 1)) {
    throw ArgumentError(
        str_cat("`betas[", index, "]` is ", value),
        "pass a number that is at least 0 and below 1");
  }
}

template <typename Values>
void check_adam(const Values& options) {
  check_at_least_zero("lr", options.lr);
  check_at_least_zero("eps", options.eps);
  check_at_least_zero("weight_decay", options.weight_decay);
  check_beta(0, options.betas[0]);
  check_beta(1, options.betas[1]);
}

std::string parameter_label(std::size_t group, std::size_t index) {
  return str_cat("parameter ", index, " of parameter group ", group);
}

void check_parameter(
    const at::Tensor& parameter, std::size_t group, std::size_t index) {
  if (!parameter.defined()) {
    throw ArgumentError(
        str_cat(parameter_label(group, index), " is an undefined tensor"));
  }
  if (!parameter.is_leaf()) {
    throw ArgumentError(
        str_cat(
            parameter_label(group, index),
            " (shape ",
            parameter.sizes(),
            ") was computed from other tensors, so it never gets a gradient"),
        "pass the parameters it was computed from, or "
        "`tensor.detach().requires_grad_()`");
  }
}

template <typename Values>
Group make_group(std::vector<at::Tensor> params, const Values& options) {
  check_options(options);
  return {
      std::move(params), std::make_unique<ParamGroupOptions<Values>>(options)};
}

}  // namespace

void check_options(const AdamWOptions& options) {
  check_adam(options);
}
void check_options(const AdamOptions& options) {
  check_adam(options);
}

void check_options(const SGDOptions& options) {
  check_at_least_zero("lr", options.lr);
  check_at_least_zero("momentum", options.momentum);
  check_at_least_zero("weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw ArgumentError(str_cat(
        "`nesterov` needs a positive `momentum` and no `dampening`, but "
        "`momentum` is ",
        options.momentum,
        " and `dampening` is ",
        options.dampening));
  }
}

std::vector<Group> checked_groups(const std::vector<Group>& groups) {
  std::unordered_map<const void*, std::size_t> group_of;
  std::vector<Group> result;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    result.push_back(groups[g]);
    auto& params = result.back().params();
    params.clear();
    for (std::size_t i = 0; i < groups[g].params().size(); ++i) {
      const at::Tensor& parameter = groups[g].params()[i];
      check_parameter(parameter, g, i);
      const auto [found, is_new] =
          group_of.emplace(parameter.unsafeGetTensorImpl(), g);
      if (is_new) {
        params.push_back(parameter);
      } else if (found->second != g) {
        throw ArgumentError(
            str_cat(
                parameter_label(g, i),
                " is also in parameter group ",
                found->second),
            "list each parameter in only one parameter group");
      }
    }
  }
  return result;
}

template <typename Values>
std::unique_ptr<torch::optim::OptimizerOptions>
ParamGroupOptions<Values>::clone() const {
  return std::make_unique<ParamGroupOptions>(*this);
}
template class ParamGroupOptions<AdamWOptions>;
template class ParamGroupOptions<AdamOptions>;
template class ParamGroupOptions<SGDOptions>;

Group param_group(std::vector<at::Tensor> params, const AdamWOptions& options) {
  return make_group(std::move(params), options);
}
Group param_group(std::vector<at::Tensor> params, const AdamOptions& options) {
  return make_group(std::move(params), options);
}
Group param_group(std::vector<at::Tensor> params, const SGDOptions& options) {
  return make_group(std::move(params), options);
}

}  // namespace accelerate
