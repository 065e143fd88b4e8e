// SPDX-License-Identifier: Apache-2.0
// The C++ counterparts of a Python optimizer and its schedulers.
//
// Each counterpart holds an adapter: an object from `accelerate_cpp.optimizers`
// that refers to the Python optimizer or scheduler. Calls to the adapter
// acquire the GIL.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/lr_scheduler.h"
#include "accelerate/optimizer_state.h"
#include "torch.h"

namespace accelerate::python {

/// A reference to a Python object that can be copied and released without
/// holding the GIL.
class Adapter {
 public:
  explicit Adapter(py::object object);

  template <typename Result, typename... Args>
  Result call(const char* method, const Args&... args) const {
    const py::gil_scoped_acquire gil;
    return (*object_).attr(method)(args...).template cast<Result>();
  }
  template <typename... Args>
  void invoke(const char* method, const Args&... args) const {
    const py::gil_scoped_acquire gil;
    (*object_).attr(method)(args...);
  }
  const py::object& object() const { return *object_; }

 private:
  std::shared_ptr<py::object> object_;
};

class PythonOptimizer : public torch::optim::Optimizer,
                        public StatefulOptimizer {
 public:
  /// `groups` contains the parameters of each parameter group.
  PythonOptimizer(
      py::object adapter, const std::vector<std::vector<at::Tensor>>& groups);

  at::Tensor step(LossClosure closure = nullptr) override;
  OptimizerState save_optimizer_state(
      const std::vector<std::string>& names) const override;
  std::function<void()> stage_optimizer_state(
      const OptimizerState& state,
      const std::vector<std::string>& names) override;

 private:
  Adapter adapter_;
};

class PythonScheduler : public LRScheduler {
 public:
  PythonScheduler(
      py::object adapter, std::shared_ptr<PythonOptimizer> optimizer);

  std::vector<double> get_lr() const override;
  Json state_dict() const override;
  void load_state_dict(const Json& state) override;

 protected:
  void advance() override;
  std::optional<std::int64_t> total_steps() const override;

 private:
  void read_counts();

  Adapter adapter_;
  std::shared_ptr<PythonOptimizer> optimizer_;
};

}  // namespace accelerate::python
