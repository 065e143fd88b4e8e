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

std::atomic<int> num_graphs = 0;
thread_local TapeGraph::Tape* current_tape = nullptr;

// Called before autograd, so operations that another operation calls are not
// recorded separately.
void record_operation(
    const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  const auto count =
      static_cast<std::ptrdiff_t>(operation.schema().arguments().size());
  torch::jit::Stack arguments(stack->end() - count, stack->end());
  operation.callBoxed(stack);
  if (current_tape != nullptr) {
    const auto results =
        static_cast<std::ptrdiff_t>(operation.schema().returns().size());
    current_tape->entries.push_back(
        {operation,
         std::move(arguments),
         torch::jit::Stack(stack->end() - results, stack->end())});
  }
}

// A view does not need a copy, because it shows the new values.
void update_result(const c10::IValue& captured, const c10::IValue& current) {
  if (captured.isTensor() && captured.toTensor().defined() &&
      !captured.toTensor().is_alias_of(current.toTensor())) {
    captured.toTensor().copy_(current.toTensor());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(
      torch::CppFunction::makeFromBoxedFunction<&record_operation>());
}

TapeGraph::TapeGraph() : tape_(std::make_unique<Tape>()) {
  ++num_graphs;
}

TapeGraph::~TapeGraph() {
  --num_graphs;
}

void TapeGraph::capture(const std::function<void()>& body) {
  struct Scope {
    explicit Scope(Tape* tape) { current_tape = tape; }
    ~Scope() { current_tape = nullptr; }
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
      update_result(entry.results[i], stack[i]);
    }
  }
}

bool TapeGraph::is_capturing() {
  return current_tape != nullptr;
}

int TapeGraph::count() {
  return num_graphs.load();
}

}  // namespace accelerate
