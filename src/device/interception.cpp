// SPDX-License-Identifier: Apache-2.0
#include "device/interception.h"

#include <algorithm>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

namespace accelerate {
namespace {

// NOTE [The key of marked tensors]
// The dispatcher calls the fallback of this key for every operator that gets a
// tensor with the key. LibTorch reserves the key for experiments and never
// sets it. It comes before autocast and autograd, so the fallback sees the
// operators that a module calls, such as `batch_norm`, and not their parts.
constexpr c10::DispatchKey kMarkKey =
    c10::DispatchKey::TESTING_ONLY_GenericWrapper;
constexpr c10::DispatchKeySet kAfterMarkKey(
    c10::DispatchKeySet::FULL_AFTER, kMarkKey);

// The context of a marked tensor's storage. Views and detached tensors share
// the storage, so they share the mark.
struct Mark {
  std::shared_ptr<Interceptor> interceptor;
  c10::Storage before;  // Owns the memory.
};

void delete_mark(void* mark) {
  delete static_cast<Mark*>(mark);
}

Mark* mark_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kMarkKey) ||
      !tensor.has_storage()) {
    return nullptr;
  }
  // Without the checks: the data of a lazy tensor must not be read.
  return tensor.storage()
      .unsafeGetStorageImpl()
      ->_mutable_data_ptr_no_checks()
      .cast_context<Mark>(&delete_mark);
}

using Interceptors = c10::SmallVector<std::shared_ptr<Interceptor>, 2>;

void add_interceptor(const at::Tensor& tensor, Interceptors& found) {
  const Mark* mark = mark_of(tensor);
  if (mark != nullptr &&
      std::ranges::find(found, mark->interceptor) == found.end()) {
    found.push_back(mark->interceptor);
  }
}

Interceptors interceptors_of(c10::ArrayRef<c10::IValue> arguments) {
  Interceptors found;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      add_interceptor(argument.toTensor(), found);
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorList()) {
        add_interceptor(tensor, found);
      }
    } else if (argument.isOptionalTensorList()) {
      for (const std::optional<at::Tensor> tensor :
           argument.toOptionalTensorList()) {
        add_interceptor(tensor.value_or(at::Tensor()), found);
      }
    }
  }
  return found;
}

// Puts `value` in place of each tensor in `argument` that has the mark.
void replace_marked(
    c10::IValue& argument, const Interceptor& mark, const at::Tensor& value) {
  const auto is_marked = [&](const at::Tensor& tensor) {
    return interceptor_of(tensor) == &mark;
  };
  if (argument.isTensor()) {
    if (is_marked(argument.toTensor())) {
      argument = value;
    }
  } else if (argument.isTensorList()) {
    auto tensors = argument.toTensorList().copy();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors.set(i, is_marked(tensors[i]) ? value : tensors.get(i));
    }
    argument = tensors;
  } else if (argument.isOptionalTensorList()) {
    auto tensors = argument.toOptionalTensorList().copy();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::optional<at::Tensor> tensor = tensors.get(i);
      tensors.set(i, tensor && is_marked(*tensor) ? value : tensor);
    }
    argument = tensors;
  }
}

class DispatchedCall final : public InterceptedCall {
 public:
  DispatchedCall(
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack& stack,
      Interceptors interceptors)
      : op_(op),
        keys_(keys),
        stack_(stack),
        interceptors_(std::move(interceptors)) {}

  const std::string& name() const override { return op_.operator_name().name; }

  c10::ArrayRef<c10::IValue> arguments() const override {
    return torch::jit::last(stack_, op_.schema().arguments().size());
  }

  // A composite operator calls its parts here. Parts that get the marked tensor
  // reach the fallback again.
  void proceed() override {
    if (next_ < interceptors_.size()) {
      interceptors_[next_++]->intercept(*this);
    } else {
      op_.redispatchBoxed(keys_ & kAfterMarkKey, &stack_);
    }
  }

  void proceed_with(const at::Tensor& value, const Interceptor& mark) override {
    const std::size_t count = op_.schema().arguments().size();
    for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      replace_marked(stack_[i], mark, value);
    }
    op_.callBoxed(&stack_);
  }

  void set_result(c10::IValue result) override {
    torch::jit::drop(stack_, op_.schema().arguments().size());
    stack_.push_back(std::move(result));
  }

 private:
  const c10::OperatorHandle& op_;
  c10::DispatchKeySet keys_;
  torch::jit::Stack& stack_;
  Interceptors interceptors_;
  std::size_t next_ = 0;
};

// `set_data` replaces the storage and the keys. Before that, LibTorch calls
// this operator with the new data, so the new data gets the mark here.
void mark_new_data(const InterceptedCall& call) {
  const at::Tensor& replaced = call.arguments()[0].toTensor();
  const at::Tensor& data = call.arguments()[1].toTensor();
  // A lazy tensor has no memory. New data makes it a normal tensor.
  if (const Mark* old = mark_of(replaced); old != nullptr &&
                                           old->before.data() != nullptr &&
                                           mark_of(data) == nullptr) {
    mark(data, old->interceptor);
  }
}

// `set_` replaces only the storage.
void mark_again_after(InterceptedCall& call) {
  const at::Tensor changed = call.arguments()[0].toTensor();
  const Mark* old = mark_of(changed);
  const auto interceptor = old != nullptr ? old->interceptor : nullptr;
  call.proceed();
  if (interceptor != nullptr && mark_of(changed) == nullptr) {
    mark(changed, interceptor);
  }
}

void run_intercepted(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const auto arguments =
      torch::jit::last(*stack, op.schema().arguments().size());
  DispatchedCall call(op, keys, *stack, interceptors_of(arguments));
  if (call.name() == "aten::set_") {
    mark_again_after(call);
    return;
  }
  if (call.name() == "aten::_has_compatible_shallow_copy_type") {
    mark_new_data(call);
  }
  call.proceed();
}

// Only programs that mark a tensor need the fallback.
void register_fallback() {
  static const auto registration =
      c10::Dispatcher::singleton().registerFallback(
          kMarkKey,
          c10::KernelFunction::makeFromBoxedFunction<&run_intercepted>(),
          "accelerate: interception.cpp");
}

// Gives `tensor` a new storage for the same memory, and new keys.
void replace_storage(
    const at::Tensor& tensor, c10::Storage storage, c10::DispatchKeySet keys) {
  auto changed = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), keys, tensor.dtype());
  changed.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  tensor.unsafeGetTensorImpl()->shallow_copy_from(changed.getIntrusivePtr());
}

}  // namespace

void mark(const at::Tensor& tensor, std::shared_ptr<Interceptor> interceptor) {
  register_fallback();
  if (Mark* old = mark_of(tensor)) {
    old->interceptor = std::move(interceptor);
    return;
  }
  const c10::Storage& before = tensor.storage();
  void* const data = before.mutable_data();
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      before.nbytes(),
      at::DataPtr(
          data,
          new Mark{std::move(interceptor), before},
          &delete_mark,
          before.device()),
      /*allocator=*/nullptr,
      /*resizable=*/false);
  replace_storage(
      tensor,
      c10::Storage(std::move(storage)),
      tensor.key_set() | c10::DispatchKeySet(kMarkKey));
}

Interceptor* interceptor_of(const at::Tensor& tensor) {
  const Mark* mark = mark_of(tensor);
  return mark != nullptr ? mark->interceptor.get() : nullptr;
}

}  // namespace accelerate
