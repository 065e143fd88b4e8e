// SPDX-License-Identifier: Apache-2.0
#include "support/tape_graph.h"

#include <atomic>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace accelerate {

struct TapeGraph::Tape {
  struct Entry {
    c10::OperatorHandle operation;
    torch::jit::Stack arguments;
    torch::jit::Stack results;
  };
  std::vector<Entry> entries;
};

namespace {

constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

std::atomic<int> living = 0;
thread_local TapeGraph::Tape* tape = nullptr;

// Above autograd: what an operation calls in turn is part of it.
void write_down(
    const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  const auto count =
      static_cast<std::ptrdiff_t>(operation.schema().arguments().size());
  torch::jit::Stack arguments(stack->end() - count, stack->end());
  operation.callBoxed(stack);
  if (tape != nullptr) {
    const auto results =
        static_cast<std::ptrdiff_t>(operation.schema().returns().size());
    tape->entries.push_back(
        {operation,
         std::move(arguments),
         torch::jit::Stack(stack->end() - results, stack->end())});
  }
}

// A view shows the new values by itself.
void bring_up_to_date(const c10::IValue& then, const c10::IValue& now) {
  if (then.isTensor() && then.toTensor().defined() &&
      !then.toTensor().is_alias_of(now.toTensor())) {
    then.toTensor().copy_(now.toTensor());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&write_down>());
}

TapeGraph::TapeGraph() : tape_(std::make_unique<Tape>()) {
  ++living;
}

TapeGraph::~TapeGraph() {
  --living;
}

void TapeGraph::capture(const std::function<void()>& body) {
  struct Scope {
    explicit Scope(Tape* one) { tape = one; }
    ~Scope() { tape = nullptr; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    c10::impl::IncludeDispatchKeyGuard guard{kKey};
  };
  const Scope scope(tape_.get());
  body();
}

void TapeGraph::replay() {
  const at::NoGradGuard no_grad;
  for (const auto& entry : tape_->entries) {
    torch::jit::Stack stack = entry.arguments;
    entry.operation.callBoxed(&stack);
    for (std::size_t i = 0; i < stack.size(); ++i) {
      bring_up_to_date(entry.results[i], stack[i]);
    }
  }
}

bool TapeGraph::is_recording() {
  return tape != nullptr;
}

int TapeGraph::count() {
  return living.load();
}

}  // namespace accelerate
