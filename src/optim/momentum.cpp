// SPDX-License-Identifier: Apache-2.0
#include "optim/momentum.h"

#include "optim/optimizer_kinds.h"

namespace accelerate {
namespace {

// Finds and sets the momentum in an optimizer's options.
class MomentumSetter : public StateArchive {
 public:
  explicit MomentumSetter(double value) : value_(value) {}
  bool found() const { return found_; }

  void real(const std::string& name, double& value) override {
    if (name == "momentum") {
      value = value_;
      found_ = true;
    }
  }
  void pair(
      const std::string& name, double& first, double& /*second*/) override {
    if (name == "betas") {
      first = value_;
      found_ = true;
    }
  }
  void tensor(const std::string&, at::Tensor&) override {}
  void optional_tensor(const std::string&, at::Tensor&) override {}
  void free_tensor(const std::string&, at::Tensor&) override {}
  void tensors(const std::string&, std::deque<at::Tensor>&) override {}
  void integer(const std::string&, std::int64_t&) override {}
  void boolean(const std::string&, bool&) override {}
  void text(const std::string&, std::string&) override {}

 private:
  double value_;
  bool found_ = false;
};

}  // namespace

bool has_momentum(torch::optim::Optimizer& optimizer) {
  const OptimizerKind* kind = find_kind(optimizer);
  if (kind == nullptr || optimizer.param_groups().empty()) {
    return false;
  }
  MomentumSetter setter(0);
  const auto copy = optimizer.param_groups().front().options().clone();
  kind->visit_options(*copy, setter);
  return setter.found();
}

void set_momentum(torch::optim::Optimizer& optimizer, double value) {
  const OptimizerKind& kind = kind_of(optimizer);
  for (auto& group : optimizer.param_groups()) {
    MomentumSetter setter(value);
    kind.visit_options(group.options(), setter);
  }
}

}  // namespace accelerate
