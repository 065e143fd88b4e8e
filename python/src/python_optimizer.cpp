// SPDX-License-Identifier: Apache-2.0
#include "python_optimizer.h"

#include <utility>

#include "json.h"

namespace accelerate::python {
namespace {

/// Reads and writes the learning rate of a parameter group in Python.
class ParamGroupOptions
    : public torch::optim::OptimizerCloneableOptions<ParamGroupOptions> {
 public:
  ParamGroupOptions(Adapter adapter, std::size_t group)
      : adapter_(std::move(adapter)), group_(group) {}

  double get_lr() const override {
    return adapter_.call<double>("get_lr", group_);
  }
  // NOLINTNEXTLINE(readability-avoid-const-params-in-decls)
  void set_lr(const double lr) override {
    adapter_.invoke("set_lr", group_, lr);
  }

 private:
  Adapter adapter_;
  std::size_t group_;
};

std::vector<torch::optim::OptimizerParamGroup> param_groups_of(
    const Adapter& adapter,
    const std::vector<std::vector<at::Tensor>>& groups) {
  std::vector<torch::optim::OptimizerParamGroup> result;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    result.emplace_back(
        groups[i], std::make_unique<ParamGroupOptions>(adapter, i));
  }
  return result;
}

}  // namespace

Adapter::Adapter(py::object object)
    : object_(new py::object(std::move(object)), [](py::object* held) {
        // After the interpreter has shut down, the object must not be released.
        if (Py_IsInitialized() != 0) {
          const py::gil_scoped_acquire gil;
          delete held;
        }
      }) {
}

PythonOptimizer::PythonOptimizer(
    py::object adapter, const std::vector<std::vector<at::Tensor>>& groups)
    : Optimizer(
          param_groups_of(Adapter(adapter), groups),
          std::make_unique<ParamGroupOptions>(Adapter(adapter), 0)),
      adapter_(std::move(adapter)) {
}

at::Tensor PythonOptimizer::step(LossClosure closure) {
  at::Tensor loss = closure ? closure() : at::Tensor();
  adapter_.invoke("step");
  return loss;
}

OptimizerState PythonOptimizer::save_optimizer_state(
    const std::vector<std::string>& names) const {
  const py::gil_scoped_acquire gil;
  const py::tuple saved = adapter_.object().attr("save")(names);
  return {saved[0].cast<Tensors>(), to_json(saved[1], "the optimizer's state")};
}

std::function<void()> PythonOptimizer::stage_optimizer_state(
    const OptimizerState& state, const std::vector<std::string>& names) {
  const py::gil_scoped_acquire gil;
  const Adapter staged(adapter_.object().attr("stage")(
      state.tensors, from_json(state.scalars), names));
  return [staged] { staged.invoke("__call__"); };
}

PythonScheduler::PythonScheduler(
    py::object adapter, std::shared_ptr<PythonOptimizer> optimizer)
    : LRScheduler(*optimizer),
      adapter_(std::move(adapter)),
      optimizer_(std::move(optimizer)) {
  base_lrs_ = adapter_.call<std::vector<double>>("base_lrs");
  read_counts();
}

void PythonScheduler::read_counts() {
  last_epoch_ = adapter_.call<std::int64_t>("last_epoch");
  step_count_ = adapter_.call<std::int64_t>("step_count");
  last_lr_ = get_lr();
}

std::vector<double> PythonScheduler::get_lr() const {
  return adapter_.call<std::vector<double>>("last_lr");
}

// C++ may already have counted the steps for accumulated micro-batches.
void PythonScheduler::advance() {
  adapter_.invoke("advance", step_count_);
  read_counts();
}

std::optional<std::int64_t> PythonScheduler::total_steps() const {
  return adapter_.call<std::optional<std::int64_t>>("total_steps");
}

// Returns the values of the Python scheduler, most of which have the same names
// as in C++.
Json PythonScheduler::state_dict() const {
  const py::gil_scoped_acquire gil;
  Json state =
      to_json(adapter_.object().attr("save")(), "the scheduler's state");
  state["base_lrs"] = base_lrs_;
  state["last_epoch"] = adapter_.call<std::int64_t>("last_epoch");
  state["_step_count"] = step_count_;
  state["_last_lr"] = get_lr();
  return state;
}

void PythonScheduler::load_state_dict(const Json& state) {
  LRScheduler::load_state_dict(state);
  const py::gil_scoped_acquire gil;
  adapter_.object().attr("load")(from_json(state));
}

}  // namespace accelerate::python
