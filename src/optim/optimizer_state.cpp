// SPDX-License-Identifier: Apache-2.0
#include "accelerate/optimizer_state.h"

#include <map>
#include <memory>
#include <set>

#include <torch/optim/optimizer.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "optim/optimizer_kinds.h"
#include "optim/parameter_list.h"
#include "optim/staged_state.h"
#include "optim/state_archives.h"
#include "optim/step_counters.h"

namespace accelerate {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

Json names_of_group(
    const torch::optim::OptimizerParamGroup& group,
    const ParameterList& parameters) {
  Json names = Json::array();
  for (const at::Tensor& parameter : group.params()) {
    names.push_back(parameters.name_of(parameter));
  }
  return names;
}

Json group_options(
    const OptimizerKind& kind,
    const torch::optim::OptimizerParamGroup& group,
    const ParameterList& parameters) {
  Json result = Json::object({{"params", names_of_group(group, parameters)}});
  OptimizerState unused;
  StateWriter writer("", unused, result.as_object());
  const auto options = group.options().clone();
  kind.visit_options(*options, writer);
  return result;
}

// Reads and checks a whole state before changing the optimizer.
class Loader {
 public:
  Loader(
      Optimizer& optimizer,
      const OptimizerState& state,
      const std::vector<std::string>& names,
      const Adopt adopt)
      : optimizer_(optimizer),
        state_(state),
        adopt_(adopt),
        kind_(kind_of(optimizer)),
        parameters_(optimizer, names) {}

  void read() {
    check_kind();
    read_groups();
    read_states();
    check_left_over();
    if (!report_.problems.empty()) {
      std::string text = "the saved state does not match the optimizer:";
      for (const std::string& problem : report_.problems) {
        text += "\n  " + problem;
      }
      throw FormatError(
          text, "load it into an optimizer with the same parameters");
    }
  }

  void apply() {
    for (std::size_t i = 0; i < options_.size(); ++i) {
      optimizer_.param_groups()[i].set_options(std::move(options_[i]));
    }
    optimizer_.state().clear();
    for (auto& [parameter, state] : states_) {
      optimizer_.state()[parameter] = std::move(state);
    }
    pack_step_counters(optimizer_);
  }

 private:
  void check_kind() {
    const std::string& saved = state_.scalars.at("optimizer").as_string();
    if (saved != kind_.name) {
      throw FormatError(str_cat(
          "the saved state belongs to the optimizer `",
          saved,
          "`, not to `",
          kind_.name,
          "`"));
    }
  }

  void read_groups() {
    const auto& saved = state_.scalars.at("param_groups").as_array();
    const auto& groups = optimizer_.param_groups();
    if (saved.size() != groups.size()) {
      report_.problems.push_back(str_cat(
          "different numbers of parameter groups: ",
          saved.size(),
          " in the saved state, ",
          groups.size(),
          " in the optimizer"));
      return;
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      read_group(saved[i], groups[i], i);
    }
  }

  void read_group(
      const Json& saved,
      const torch::optim::OptimizerParamGroup& group,
      std::size_t index) {
    const Json names = names_of_group(group, parameters_);
    if (saved.at("params") != names) {
      report_.problems.push_back(str_cat(
          "parameter group ",
          index,
          " has the parameters ",
          saved.at("params").dump(),
          " in the saved state, but ",
          names.dump(),
          " in the optimizer"));
    }
    auto options = group.options().clone();
    StateReader reader(
        str_cat("parameter group ", index),
        at::Tensor(),
        state_,
        saved,
        report_);
    kind_.visit_options(*options, reader);
    options_.push_back(std::move(options));
  }

  void read_states() {
    for (const auto& [name, scalars] : state_.scalars.at("state").as_object()) {
      const at::Tensor* parameter = parameters_.find(name);
      if (parameter == nullptr) {
        report_.problems.push_back(
            str_cat("the optimizer has no parameter `", name, "`"));
        continue;
      }
      auto param_state = kind_.make_state();
      StateReader reader(name, *parameter, state_, scalars, report_, adopt_);
      kind_.visit_state(*param_state, reader);
      states_[parameter->unsafeGetTensorImpl()] = std::move(param_state);
    }
  }

  void check_left_over() {
    for (const auto& [key, tensor] : state_.tensors) {
      if (report_.used.count(key) == 0) {
        report_.problems.push_back(
            str_cat("the optimizer does not use tensor `", key, "`"));
      }
    }
  }

  Optimizer& optimizer_;
  const OptimizerState& state_;
  const Adopt adopt_;
  const OptimizerKind& kind_;
  ParameterList parameters_;
  ReadReport report_;
  std::vector<std::unique_ptr<OptimizerOptions>> options_;
  std::map<void*, std::unique_ptr<OptimizerParamState>> states_;
};

}  // namespace

StatefulOptimizer::~StatefulOptimizer() = default;

OptimizerState optimizer_state(
    const Optimizer& optimizer, const std::vector<std::string>& names) {
  if (const auto* stateful =
          dynamic_cast<const StatefulOptimizer*>(&optimizer)) {
    return stateful->save_optimizer_state(names);
  }
  const OptimizerKind& kind = kind_of(optimizer);
  const ParameterList parameters(optimizer, names);
  OptimizerState result;
  Json states = Json::object();
  for (const auto& [name, parameter] : parameters.entries()) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) {
      continue;
    }
    Json& scalars = states[name] = Json::object();
    StateWriter writer(name, result, scalars.as_object());
    kind.visit_state(*found->second, writer);
  }
  Json groups = Json::array();
  for (const auto& group : optimizer.param_groups()) {
    groups.push_back(group_options(kind, group, parameters));
  }
  result.scalars = Json::object(
      {{"optimizer", kind.name}, {"state", states}, {"param_groups", groups}});
  return result;
}

void load_optimizer_state(
    Optimizer& optimizer,
    const OptimizerState& state,
    const std::vector<std::string>& names) {
  stage_optimizer_state(optimizer, state, names)();
}

std::function<void()> stage_optimizer_state(
    Optimizer& optimizer,
    const OptimizerState& state,
    const std::vector<std::string>& names,
    const Adopt adopt) {
  if (auto* stateful = dynamic_cast<StatefulOptimizer*>(&optimizer)) {
    return stateful->stage_optimizer_state(state, names);
  }
  auto loader = std::make_shared<Loader>(optimizer, state, names, adopt);
  loader->read();
  return [loader] { loader->apply(); };
}

}  // namespace accelerate
