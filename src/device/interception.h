// SPDX-License-Identifier: Apache-2.0
// Runs code in place of the operators that get particular tensors.
//
// The modules of a C++ model are typed members, so replacing a registered
// module has no effect on `forward`. Code that must change what a user's module
// computes is therefore attached to the module's tensors.
//
//     class Count : public Interceptor {
//       std::atomic<int> calls = 0;
//       void intercept(InterceptedCall& call) override {
//         ++calls;
//         call.proceed();
//       }
//     };
//     mark(module.weight, std::make_shared<Count>());
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace accelerate {

class InterceptedCall;

/// Runs instead of each operator that gets a marked tensor. Derive one class
/// for each behavior.
///
/// Thread safety: `intercept` must be thread-safe, because autograd may call
/// operators on its own threads.
class Interceptor {
 public:
  Interceptor() = default;
  Interceptor(const Interceptor&) = delete;
  Interceptor& operator=(const Interceptor&) = delete;
  virtual ~Interceptor() = default;

  /// Runs the operator (`call.proceed()`), or sets its results. Errors
  /// that this function throws are thrown by the operator.
  virtual void intercept(InterceptedCall& call) = 0;
};

/// One call of an operator, with at least one marked tensor among its
/// arguments.
class InterceptedCall {
 public:
  /// Returns the name of the operator, such as `aten::batch_norm`.
  virtual const std::string& name() const = 0;
  /// Returns the arguments, in the order of the operator's schema. Valid only
  /// until `proceed`, `proceed_with` or `set_result` is called.
  virtual c10::ArrayRef<c10::IValue> arguments() const = 0;
  /// Runs the operator; if the arguments have several marks, runs the next
  /// interceptor instead.
  virtual void proceed() = 0;
  /// Runs the operator with `value` in place of the arguments whose mark is
  /// `mark`.
  virtual void proceed_with(
      const at::Tensor& value, const Interceptor& mark) = 0;
  /// Sets the result without running the operator.
  virtual void set_result(c10::IValue result) = 0;

 protected:
  ~InterceptedCall() = default;
};

/// Makes operators that get `tensor`, or a view of it, call `interceptor`.
/// `tensor` keeps its values, its identity and its `.grad`, and its storage
/// still uses the same memory. A tensor has at most one mark; a new mark
/// replaces the old one.
///
/// The mark survives `set_data` and therefore `Module::to` and `torch::load`.
/// The results of operators have no mark unless they are views. Copies of a
/// module have no mark either.
void mark(const at::Tensor& tensor, std::shared_ptr<Interceptor> interceptor);
/// Returns the interceptor of a marked tensor; null without a mark.
Interceptor* interceptor_of(const at::Tensor& tensor);

}  // namespace accelerate
