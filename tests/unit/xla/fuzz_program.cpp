// SPDX-License-Identifier: Apache-2.0
#include "unit/xla/fuzz_program.h"

#include <torch/csrc/autograd/autograd.h>

#include "unit/xla/fuzz_draw.h"
#include "unit/xla/xla_device.h"

namespace accelerate::xla {
namespace {

constexpr std::size_t kSteps = 20;
constexpr double kLargest = 1e3;

// What is the same for all steps of a program.
struct FuzzPlan {
  at::ScalarType type = at::kDouble;
  bool differentiates = true;
  /// Sizes of dimensions: few, so that operands fit together often.
  std::vector<std::int64_t> sizes;
};

FuzzPlan plan_of(FuzzDraw& draw) {
  constexpr at::ScalarType kTypes[] = {
      at::kDouble, at::kDouble, at::kFloat, at::kBFloat16};
  FuzzPlan plan;
  plan.type = draw.one_of<at::ScalarType>(kTypes);
  plan.differentiates = draw.chance(75);
  plan.sizes = {1, draw.between(2, 4), draw.between(2, 5)};
  if (draw.chance(3)) {
    plan.sizes.push_back(0);
  }
  return plan;
}

std::vector<std::int64_t> random_sizes(FuzzDraw& draw, const FuzzPlan& plan) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(draw.between(0, 4)));
  for (std::int64_t& size : sizes) {
    size = draw.one_of<std::int64_t>(plan.sizes);
  }
  return sizes;
}

bool is_finite_and_small(const at::Tensor& tensor) {
  return tensor.numel() == 0 ||
         tensor.detach().to(at::kDouble).abs().max().item<double>() <= kLargest;
}

struct Families {
  std::vector<FuzzOperator> operators;
  std::int64_t weight;
};

const std::vector<Families>& families() {
  static const std::vector<Families> all = {
      {fuzz_views(), 25},
      {fuzz_writes(), 15},
      {fuzz_elementwise(), 25},
      {fuzz_integers(), 5},
      {fuzz_reductions(), 10},
      {fuzz_indexing(), 10},
      {fuzz_layers(), 10},
  };
  return all;
}

const FuzzOperator& random_operator(FuzzDraw& draw) {
  std::int64_t position = draw.below(100);
  for (const Families& family : families()) {
    if (position < family.weight) {
      return draw.one_of<FuzzOperator>(family.operators);
    }
    position -= family.weight;
  }
  throw std::logic_error("the weights of the families do not add up to 100");
}

// One run of a program.
class Program {
 public:
  Program(std::uint64_t seed, FuzzPlace place, const FuzzRun* on_cpu)
      : seed_(seed), place_(place), on_cpu_(on_cpu) {
    FuzzDraw draw = draw_for(0);
    plan_ = plan_of(draw);
    run_.type = plan_.type;
    add_leaves();
  }

  FuzzRun run() {
    for (std::size_t i = 0; i < kSteps; ++i) {
      do_step(i);
    }
    if (plan_.differentiates) {
      differentiate();
    }
    for (const FuzzItem& item : items_) {
      run_.values.push_back(copy_of(item.tensor.detach()));
    }
    for (const at::Tensor& leaf : leaves_) {
      run_.gradients.push_back(
          leaf.grad().defined() ? copy_of(leaf.grad()) : at::Tensor());
    }
    if (place_ == FuzzPlace::xla) {
      move_results();
    }
    release_graphs();
    return std::move(run_);
  }

 private:
  // One program computes all copies; views would need one each.
  static at::Tensor copy_of(const at::Tensor& tensor) {
    return tensor.clone(at::MemoryFormat::Contiguous);
  }

  // A tensor that was multiplied by itself in place keeps itself alive through
  // its backward graph, on every device.
  void release_graphs() {
    for (const FuzzItem& item : items_) {
      if (!item.tensor.is_view() && item.tensor.grad_fn() != nullptr) {
        item.tensor.detach_();
      }
    }
  }

  void move_results() {
    run_device();
    for (auto* list : {&run_.values, &run_.gradients}) {
      for (at::Tensor& tensor : *list) {
        tensor = tensor.defined() ? to_cpu(tensor) : tensor;
      }
    }
  }

  // Every step has its own numbers, so that leaving one out does not change the
  // others.
  FuzzDraw draw_for(
      std::size_t step,
      const std::vector<std::size_t>* replayed = nullptr) const {
    FuzzDraw mixed(seed_ * 64 + step, place_, plan_.type, items_);
    return {mixed.bits(), place_, plan_.type, items_, replayed};
  }

  void add_leaves() {
    FuzzDraw draw = draw_for(1);
    for (int i = 0; i < 4; ++i) {
      const at::Tensor leaf = draw.fresh(random_sizes(draw, plan_));
      const bool is_writable = i == 3;
      if (plan_.differentiates && !is_writable) {
        leaf.requires_grad_();
        leaves_.push_back(leaf);
      }
      items_.push_back({leaf, is_writable, !is_writable});
    }
    const auto sizes = random_sizes(draw, plan_);
    items_.push_back({draw.indices(sizes, 5) - 2, false, true});
    items_.push_back({draw.indices(sizes, 2).to(at::kBool), false, true});
  }

  void do_step(std::size_t i) {
    if (on_cpu_ != nullptr && !on_cpu_->steps[i].counts) {
      run_.steps.push_back({});
      return;
    }
    FuzzDraw draw = draw_for(
        i + 2, on_cpu_ != nullptr ? &on_cpu_->steps[i].chosen : nullptr);
    // Cuts the program in two.
    if (draw.chance(5) && place_ == FuzzPlace::xla) {
      run_device();
    }
    const FuzzOperator& op = random_operator(draw);
    try {
      append(op, draw, op.apply(draw));
    } catch (const NoOperand&) {
      run_.steps.push_back({});
    } catch (const c10::Error& error) {
      if (on_cpu_ != nullptr) {
        throw std::runtime_error(c10::str(
            op.name, "(", draw.text(), "): ", error.what_without_backtrace()));
      }
      run_.steps.push_back({});
    }
  }

  void append(const FuzzOperator& op, FuzzDraw& draw, at::Tensor result) {
    FuzzStep step;
    step.counts = on_cpu_ != nullptr || is_finite_and_small(result);
    step.text = op.name + "(" + draw.text() + ")";
    step.chosen = draw.chosen();
    const bool writes = op.kind == FuzzKind::write;
    if (step.counts && !writes) {
      step.text = "t" + std::to_string(items_.size()) + " = " + step.text;
      items_.push_back(item_for(op.kind, draw.first(), std::move(result)));
    }
    // A write cannot be undone: what overflowed stays.
    step.counts = step.counts || writes;
    run_.steps.push_back(std::move(step));
  }

  FuzzItem item_for(
      FuzzKind kind, const FuzzItem& first, at::Tensor result) const {
    switch (kind) {
      case FuzzKind::view:
        return {std::move(result), first.is_writable, first.is_exact};
      case FuzzKind::window:
        return {std::move(result), false, first.is_exact};
      case FuzzKind::copy:
        return {std::move(result), true, false};
      default:
        // The CPU keeps the strides of permuted operands; xla:0 does not.
        return {copy_of(result), false, false};
    }
  }

  // Weights that differ per element, so that a gradient cannot be right by
  // chance.
  void differentiate() {
    at::Tensor total;
    for (const FuzzItem& item : items_) {
      if (!item.tensor.requires_grad() || item.tensor.numel() == 0) {
        continue;
      }
      const at::Tensor flat = item.tensor.reshape({-1}).to(at::kDouble);
      const at::Tensor weights = at::arange(1, flat.numel() + 1, flat.options())
                                     .div(static_cast<double>(flat.numel()));
      const at::Tensor sum = flat.dot(weights);
      total = total.defined() ? total + sum : sum;
    }
    try {
      total.backward();
    } catch (const c10::Error& error) {
      run_.backward_error = error.what_without_backtrace();
    }
  }

  std::uint64_t seed_;
  FuzzPlace place_;
  const FuzzRun* on_cpu_;
  FuzzPlan plan_;
  std::vector<FuzzItem> items_;
  std::vector<at::Tensor> leaves_;
  FuzzRun run_;
};

// Numbers and integers become tensors of this type.
class DefaultType {
 public:
  explicit DefaultType(at::ScalarType type)
      : before_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(type));
  }
  DefaultType(const DefaultType&) = delete;
  DefaultType& operator=(const DefaultType&) = delete;
  ~DefaultType() { c10::set_default_dtype(before_); }

 private:
  caffe2::TypeMeta before_;
};

}  // namespace

FuzzRun run_fuzz_program(
    std::uint64_t seed, FuzzPlace place, const FuzzRun* on_cpu) {
  const DefaultType type(
      place == FuzzPlace::cpu_in_f64 ? at::kDouble : at::kFloat);
  return Program(seed, place, on_cpu).run();
}

std::string text_of(const FuzzRun& run) {
  std::string text;
  for (const FuzzStep& step : run.steps) {
    text += step.counts ? step.text + "\n" : "";
  }
  return text;
}

}  // namespace accelerate::xla
