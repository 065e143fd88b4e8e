// SPDX-License-Identifier: Apache-2.0
// Makes operator kernels from lowerings, and the fallback to the CPU.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/device/operators.h"
#include "xla/device/registration.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using torch::jit::Stack;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// What a kernel needs to know about its operator's schema.
struct Plan {
  std::string name;
  std::size_t arguments = 0;
  /// For each result, the argument that it aliases (in-place and out= forms).
  std::vector<std::size_t> aliases;
  std::size_t first_out = 0;  ///< The first out= argument.
  /// How many arguments the lowering sees: if the form is derived from a row
  /// with another name, only those before the first out= argument.
  std::size_t visible = 0;
};

bool is_written(const Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_out(const Argument& argument) {
  return argument.kwarg_only() && is_written(argument);
}

std::size_t argument_of_result(
    const FunctionSchema& schema, const Argument& result) {
  if (!is_written(result)) {
    return kNone;
  }
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].alias_info() != nullptr &&
        *arguments[i].alias_info() == *result.alias_info()) {
      return i;
    }
  }
  return kNone;
}

std::string short_name(const c10::OperatorName& name) {
  const std::string base = name.name.substr(name.name.find("::") + 2);
  return name.overload_name.empty() ? base : base + "." + name.overload_name;
}

Plan plan_for(const c10::OperatorHandle& op) {
  const FunctionSchema& schema = op.schema();
  Plan plan;
  plan.name = short_name(op.operator_name());
  plan.arguments = schema.arguments().size();
  plan.first_out = plan.arguments;
  for (std::size_t i = plan.arguments; i > 0; --i) {
    if (is_out(schema.arguments()[i - 1])) {
      plan.first_out = i - 1;
    }
  }
  for (const Argument& result : schema.returns()) {
    plan.aliases.push_back(argument_of_result(schema, result));
  }
  return plan;
}

void resize_out(const at::Tensor& out, const Shape& shape) {
  if (shape_of(out) != shape) {
    out.resize_(shape);
  }
}

void check_in_place(
    const Plan& plan, const at::Tensor& self, const Value& value) {
  if (shape_of(self) != value->shape &&
      broadcast_shapes(shape_of(self), value->shape) != shape_of(self)) {
    throw ArgumentError(str_cat(
        plan.name,
        ": the result of shape ",
        at::IntArrayRef(value->shape),
        " does not fit into a tensor of shape ",
        self.sizes()));
  }
  if (!c10::canCast(scalar_type_of(value->type), self.scalar_type())) {
    throw ArgumentError(str_cat(
        plan.name,
        ": the result of type ",
        toString(scalar_type_of(value->type)),
        " cannot be stored in a tensor of type ",
        toString(self.scalar_type())));
  }
}

c10::IValue finish_result(
    const Plan& plan,
    std::size_t index,
    const Value& value,
    std::span<const c10::IValue> arguments) {
  const std::size_t alias = plan.aliases[index];
  if (alias == kNone) {
    return value != nullptr ? make_tensor(value) : at::Tensor();
  }
  const at::Tensor& target = arguments[alias].toTensor();
  if (alias >= plan.first_out) {
    resize_out(target, value->shape);
  } else {
    check_in_place(plan, target, value);
  }
  write(target, value);
  return target;
}

// Translates our errors to LibTorch's, which callers of operators expect.
template <typename Function>
void with_torch_errors(const std::string& name, const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    TORCH_CHECK(
        false,
        name,
        " on xla:0: ",
        error.what(),
        error.hint().empty() ? "" : "\nhint: ",
        error.hint());
  }
}

class LoweredKernel final : public c10::OperatorKernel {
 public:
  LoweredKernel(Plan plan, std::function<void(Call&)> lower)
      : plan_(std::move(plan)), lower_(std::move(lower)) {}

  void operator()(
      const c10::OperatorHandle& /*op*/,
      c10::DispatchKeySet /*keys*/,
      Stack* stack) {
    Tracer& all = tracer();
    const auto lock = all.lock();
    ++all.counts().recorded;
    const std::span<const c10::IValue> arguments =
        std::span(*stack).last(plan_.arguments);
    Stack results;
    with_torch_errors(plan_.name, [&] {
      Call call(plan_.name, arguments.first(plan_.visible));
      lower_(call);
      for (std::size_t i = 0; i < plan_.aliases.size(); ++i) {
        results.push_back(
            finish_result(plan_, i, call.results().at(i), arguments));
      }
    });
    torch::jit::drop(*stack, plan_.arguments);
    std::move(results.begin(), results.end(), std::back_inserter(*stack));
  }

 private:
  Plan plan_;
  std::function<void(Call&)> lower_;
};

// ---- forms of an operator ----

std::optional<c10::OperatorHandle> find(const std::string& name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string overload =
      dot < name.size() ? name.substr(dot + 1) : std::string();
  return c10::Dispatcher::singleton().findSchema(
      {"aten::" + name.substr(0, dot), overload});
}

bool same_types(
    const std::vector<Argument>& a,
    const std::vector<Argument>& b,
    std::size_t count) {
  if (a.size() < count || b.size() < count) {
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (*a[i].type() != *b[i].type()) {
      return false;
    }
  }
  return true;
}

// Whether `candidate` is `functional` with out= arguments.
bool is_out_form(
    const FunctionSchema& functional, const FunctionSchema& candidate) {
  const auto& arguments = functional.arguments();
  const auto& all = candidate.arguments();
  return all.size() == arguments.size() + functional.returns().size() &&
         same_types(arguments, all, arguments.size()) &&
         std::all_of(
             all.begin() + static_cast<std::ptrdiff_t>(arguments.size()),
             all.end(),
             is_out);
}

using Overloads =
    std::unordered_map<std::string, std::vector<c10::OperatorName>>;

Overloads overloads_of_aten() {
  Overloads overloads;
  for (const c10::OperatorName& name :
       c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("aten::")) {
      overloads[name.name].push_back(name);
    }
  }
  return overloads;
}

bool is_in_place_form(
    const FunctionSchema& functional, const FunctionSchema& candidate) {
  const auto& arguments = candidate.arguments();
  return arguments.size() == functional.arguments().size() &&
         same_types(functional.arguments(), arguments, arguments.size()) &&
         is_written(arguments[0]);
}

// Adds the overloads of `base` that `is_form` accepts for `functional`.
template <typename Predicate>
void append_forms(
    std::vector<c10::OperatorHandle>& forms,
    const FunctionSchema& functional,
    const std::string& base,
    const Overloads& overloads,
    const Predicate& is_form) {
  const auto found = overloads.find(base);
  if (found == overloads.end()) {
    return;
  }
  for (const c10::OperatorName& name : found->second) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && is_form(functional, op->schema())) {
      forms.push_back(*op);
    }
  }
}

// The operator that a row of a table names, and its out= and in-place forms.
std::vector<c10::OperatorHandle> forms_of(
    const std::string& name, const Overloads& overloads) {
  const auto functional = find(name);
  if (!functional) {
    throw InternalError(
        str_cat("a lowering names `aten::", name, "`, which does not exist"));
  }
  std::vector<c10::OperatorHandle> forms{*functional};
  const FunctionSchema& schema = functional->schema();
  const std::string base = functional->operator_name().name;
  append_forms(forms, schema, base, overloads, is_out_form);
  append_forms(forms, schema, base + "_", overloads, is_in_place_form);
  return forms;
}

// ---- operators without a lowering ----

std::mutex fallback_mutex;
std::map<std::string, std::int64_t> fallback_counts;

void count_fallback(const std::string& name) {
  const std::lock_guard lock(fallback_mutex);
  if (++fallback_counts[name] == 1) {
    TORCH_WARN(
        "`",
        name,
        "` has no XLA lowering and runs on the CPU, with copies of its tensors "
        "in every step");
  }
}

// Some operators are composed from others, but LibTorch leaves this composition
// out for XLA, because torch_xla does without it. Every other backend has it.
bool run_composition(const c10::OperatorHandle& op, Stack* stack) {
  using c10::DispatchKey;
  if (!op.hasKernelForDispatchKey(
          DispatchKey::CompositeExplicitAutogradNonFunctional)) {
    return false;
  }
  op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::PrivateUse3), stack);
  return true;
}

void run_without_lowering(const c10::OperatorHandle& op, Stack* stack) {
  if (run_composition(op, stack)) {
    return;
  }
  const std::string name = short_name(op.operator_name());
  Tracer& all = tracer();
  {
    const auto lock = all.lock();
    TORCH_CHECK(
        !all.strict(),
        "`",
        name,
        "` has no XLA lowering\nhint: unset ACCELERATE_XLA_STRICT to run it on "
        "the CPU");
    ++all.counts().fallbacks;
  }
  count_fallback(name);
  at::native::cpu_fallback(op, stack);
}

}  // namespace

std::map<std::string, std::int64_t> cpu_fallbacks() {
  const std::lock_guard lock(fallback_mutex);
  return fallback_counts;
}

void clear_cpu_fallbacks() {
  const std::lock_guard lock(fallback_mutex);
  fallback_counts.clear();
}

void register_lowerings(torch::Library& aten, torch::Library& others) {
  const Overloads overloads = overloads_of_aten();
  const Lowerings lowerings = all_lowerings();
  // An operator with its own row is not derived from another row.
  std::set<std::string> named;
  for (const Lowering& lowering : lowerings) {
    if (!named.insert(lowering.name).second) {
      throw InternalError(
          str_cat("`aten::", lowering.name, "` has two lowerings"));
    }
  }
  std::set<std::string> registered;
  for (const Lowering& lowering : lowerings) {
    for (const c10::OperatorHandle& op : forms_of(lowering.name, overloads)) {
      const std::string name = short_name(op.operator_name());
      if ((name != lowering.name && named.contains(name)) ||
          !registered.insert(name).second) {
        continue;
      }
      Plan plan = plan_for(op);
      plan.visible = name == lowering.name ? plan.arguments : plan.first_out;
      aten.impl(
          name.c_str(),
          torch::CppFunction::makeFromBoxedFunctor(
              std::make_unique<LoweredKernel>(
                  std::move(plan), lowering.lower)));
    }
  }
  others.fallback(
      torch::CppFunction::makeFromBoxedFunction<&run_without_lowering>());
}

}  // namespace accelerate::xla
