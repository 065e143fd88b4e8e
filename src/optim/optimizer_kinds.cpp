// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer_kinds.h"

#include <algorithm>
#include <array>
#include <string>

#include <ATen/ops/full.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"

namespace accelerate {
namespace {

namespace torch_optim = torch::optim;

// ---- state -----------------------------------------------------------------

void visit(AdamParamState& state, StateArchive& archive) {
  std::int64_t step =
      state.step.defined() ? state.step.item<std::int64_t>() : 0;
  const std::int64_t before = step;
  archive.integer("step", step);
  if (!state.step.defined() || step != before) {
    state.step = at::full({}, step, at::kFloat);
  }
  archive.tensor("exp_avg", state.exp_avg);
  archive.tensor("exp_avg_sq", state.exp_avg_sq);
  archive.optional_tensor("max_exp_avg_sq", state.max_exp_avg_sq);
}

void visit(SGDParamState& state, StateArchive& archive) {
  archive.optional_tensor("momentum_buffer", state.momentum_buffer);
}

template <typename State>
void visit_libtorch_adam(State& state, StateArchive& archive) {
  archive.integer("step", state.step());
  archive.tensor("exp_avg", state.exp_avg());
  archive.tensor("exp_avg_sq", state.exp_avg_sq());
  archive.optional_tensor("max_exp_avg_sq", state.max_exp_avg_sq());
}
void visit(torch_optim::AdamParamState& state, StateArchive& archive) {
  visit_libtorch_adam(state, archive);
}
void visit(torch_optim::AdamWParamState& state, StateArchive& archive) {
  visit_libtorch_adam(state, archive);
}

void visit(torch_optim::SGDParamState& state, StateArchive& archive) {
  archive.optional_tensor("momentum_buffer", state.momentum_buffer());
}

void visit(torch_optim::RMSpropParamState& state, StateArchive& archive) {
  archive.integer("step", state.step());
  archive.tensor("square_avg", state.square_avg());
  archive.optional_tensor("momentum_buffer", state.momentum_buffer());
  archive.optional_tensor("grad_avg", state.grad_avg());
}

void visit(torch_optim::AdagradParamState& state, StateArchive& archive) {
  archive.integer("step", state.step());
  archive.tensor("sum", state.sum());
}

// `al` of LBFGS is scratch memory for one step and is not saved.
void visit(torch_optim::LBFGSParamState& state, StateArchive& archive) {
  archive.integer("func_evals", state.func_evals());
  archive.integer("n_iter", state.n_iter());
  archive.real("t", state.t());
  archive.real("prev_loss", state.prev_loss());
  archive.free_tensor("d", state.d());
  archive.free_tensor("H_diag", state.H_diag());
  archive.free_tensor("prev_flat_grad", state.prev_flat_grad());
  archive.tensors("old_dirs", state.old_dirs());
  archive.tensors("old_stps", state.old_stps());
  archive.tensors("ro", state.ro());
}

// ---- options ---------------------------------------------------------------

template <typename Values>
void visit_adam_options(Values& values, StateArchive& archive) {
  archive.real("lr", values.lr);
  archive.pair("betas", values.betas[0], values.betas[1]);
  archive.real("eps", values.eps);
  archive.real("weight_decay", values.weight_decay);
  archive.boolean("amsgrad", values.amsgrad);
  archive.boolean("maximize", values.maximize);
}
void visit(ParamGroupOptions<AdamWOptions>& options, StateArchive& archive) {
  visit_adam_options(options.values, archive);
}
void visit(ParamGroupOptions<AdamOptions>& options, StateArchive& archive) {
  visit_adam_options(options.values, archive);
}

void visit(ParamGroupOptions<SGDOptions>& options, StateArchive& archive) {
  SGDOptions& values = options.values;
  archive.real("lr", values.lr);
  archive.real("momentum", values.momentum);
  archive.real("dampening", values.dampening);
  archive.real("weight_decay", values.weight_decay);
  archive.boolean("nesterov", values.nesterov);
  archive.boolean("maximize", values.maximize);
}

// LibTorch's optimizers cannot maximize, so they reject a state with
// `maximize`.
void visit_no_maximize(StateArchive& archive) {
  bool maximize = false;
  archive.boolean("maximize", maximize);
  if (maximize) {
    throw FormatError(
        "the saved optimizer has `maximize = true`, which LibTorch's "
        "optimizers do not support",
        "load it into accelerate's optimizer of the same name");
  }
}

template <typename Options>
void visit_libtorch_adam_options(Options& options, StateArchive& archive) {
  archive.real("lr", options.lr());
  auto& [beta1, beta2] = options.betas();
  archive.pair("betas", beta1, beta2);
  archive.real("eps", options.eps());
  archive.real("weight_decay", options.weight_decay());
  archive.boolean("amsgrad", options.amsgrad());
  visit_no_maximize(archive);
}
void visit(torch_optim::AdamOptions& options, StateArchive& archive) {
  visit_libtorch_adam_options(options, archive);
}
void visit(torch_optim::AdamWOptions& options, StateArchive& archive) {
  visit_libtorch_adam_options(options, archive);
}

void visit(torch_optim::SGDOptions& options, StateArchive& archive) {
  archive.real("lr", options.lr());
  archive.real("momentum", options.momentum());
  archive.real("dampening", options.dampening());
  archive.real("weight_decay", options.weight_decay());
  archive.boolean("nesterov", options.nesterov());
  visit_no_maximize(archive);
}

void visit(torch_optim::RMSpropOptions& options, StateArchive& archive) {
  archive.real("lr", options.lr());
  archive.real("alpha", options.alpha());
  archive.real("eps", options.eps());
  archive.real("weight_decay", options.weight_decay());
  archive.real("momentum", options.momentum());
  archive.boolean("centered", options.centered());
}

void visit(torch_optim::AdagradOptions& options, StateArchive& archive) {
  archive.real("lr", options.lr());
  archive.real("lr_decay", options.lr_decay());
  archive.real("weight_decay", options.weight_decay());
  archive.real(
      "initial_accumulator_value", options.initial_accumulator_value());
  archive.real("eps", options.eps());
}

void visit(torch_optim::LBFGSOptions& options, StateArchive& archive) {
  archive.real("lr", options.lr());
  archive.integer("max_iter", options.max_iter());
  // The constructor of LBFGS sets `max_eval`, so it always has a value.
  std::int64_t max_eval = options.max_eval().value_or(0);
  archive.integer("max_eval", max_eval);
  options.max_eval(max_eval);
  archive.real("tolerance_grad", options.tolerance_grad());
  archive.real("tolerance_change", options.tolerance_change());
  archive.integer("history_size", options.history_size());
  std::string line_search = options.line_search_fn().value_or("");
  archive.text("line_search_fn", line_search);
  options.line_search_fn(
      line_search.empty() ? std::nullopt : std::optional(line_search));
}

// ---- table -----------------------------------------------------------------

template <typename Optimizer, typename State, typename Options>
constexpr OptimizerKind kind(const char* name) {
  return {
      name,
      [](const torch_optim::Optimizer& optimizer) {
        return dynamic_cast<const Optimizer*>(&optimizer) != nullptr;
      },
      []() -> std::unique_ptr<torch_optim::OptimizerParamState> {
        return std::make_unique<State>();
      },
      [](torch_optim::OptimizerParamState& state, StateArchive& archive) {
        visit(static_cast<State&>(state), archive);
      },
      [](torch_optim::OptimizerOptions& options, StateArchive& archive) {
        visit(dynamic_cast<Options&>(options), archive);
      }};
}

const std::array<OptimizerKind, 9> kKinds = {
    kind<AdamW, AdamParamState, ParamGroupOptions<AdamWOptions>>("AdamW"),
    kind<Adam, AdamParamState, ParamGroupOptions<AdamOptions>>("Adam"),
    kind<SGD, SGDParamState, ParamGroupOptions<SGDOptions>>("SGD"),
    kind<
        torch_optim::AdamW,
        torch_optim::AdamWParamState,
        torch_optim::AdamWOptions>("AdamW"),
    kind<
        torch_optim::Adam,
        torch_optim::AdamParamState,
        torch_optim::AdamOptions>("Adam"),
    kind<torch_optim::SGD, torch_optim::SGDParamState, torch_optim::SGDOptions>(
        "SGD"),
    kind<
        torch_optim::RMSprop,
        torch_optim::RMSpropParamState,
        torch_optim::RMSpropOptions>("RMSprop"),
    kind<
        torch_optim::Adagrad,
        torch_optim::AdagradParamState,
        torch_optim::AdagradOptions>("Adagrad"),
    kind<
        torch_optim::LBFGS,
        torch_optim::LBFGSParamState,
        torch_optim::LBFGSOptions>("LBFGS"),
};

}  // namespace

const OptimizerKind* find_kind(const torch::optim::Optimizer& optimizer) {
  const auto found = std::find_if(
      kKinds.begin(), kKinds.end(), [&](const OptimizerKind& candidate) {
        return candidate.matches(optimizer);
      });
  return found == kKinds.end() ? nullptr : &*found;
}

const OptimizerKind& kind_of(const torch::optim::Optimizer& optimizer) {
  if (const OptimizerKind* found = find_kind(optimizer)) {
    return *found;
  }
  throw UnsupportedError(
      "this optimizer's state cannot be saved or loaded: the optimizer is "
      "neither accelerate's AdamW, Adam or SGD, nor LibTorch's SGD, Adam, "
      "AdamW, "
      "RMSprop, Adagrad or LBFGS");
}

}  // namespace accelerate
