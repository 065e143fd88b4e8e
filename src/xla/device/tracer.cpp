// SPDX-License-Identifier: Apache-2.0
#include "xla/device/tracer.h"

#include <atomic>
#include <unordered_map>

#include "accelerate/error.h"

namespace accelerate::xla {
namespace {

// Whether later programs can use the value as it is. A `scalar` stays an
// argument, so that a new number does not lead to a different program.
bool needs_no_run(const Node& node) {
  return node.op == Op::input || node.op == Op::constant ||
         node.op == Op::scalar;
}

// The tracer is never destroyed, because tensors in static variables may need
// it until the process exits.
std::atomic<Tracer*> opened{nullptr};
std::mutex opening;
DeviceOptions opened_with;

bool same(const DeviceOptions& a, const DeviceOptions& b) {
  return a.plugin == b.plugin && a.device_count == b.device_count &&
         a.cache == b.cache && a.strict == b.strict;
}

}  // namespace

Tracer::Tracer(std::unique_ptr<Runner> runner, bool strict)
    : runner_(std::move(runner)), strict_(strict) {
  ends_.left_ = ends_.right_ = &ends_;
}

Cell* Tracer::make_cell() {
  auto* cell = new Cell;
  cell->right_ = &ends_;
  cell->left_ = ends_.left_;
  ends_.left_->right_ = cell;
  ends_.left_ = cell;
  return cell;
}

void Tracer::destroy_cell(Cell* cell) {
  cell->left_->right_ = cell->right_;
  cell->right_->left_ = cell->left_;
  delete cell;
}

// What one program computes.
struct Tracer::Plan {
  std::uint64_t cut = std::numeric_limits<std::uint64_t>::max();
  std::vector<Output> outputs = {};
  std::unordered_set<const Node*> kept = {};
  std::unordered_map<const Node*, std::size_t> positions = {};
  /// The values that become inputs after the run.
  std::vector<std::pair<Value*, std::size_t>> targets = {};
  std::unordered_set<const Node*> visited = {};

  // The first result of an operation and its other results belong together.
  bool is_later(const Node& node) const {
    const Node& operation = node.op == Op::result ? *node.operands[0] : node;
    return operation.sequence > cut;
  }

  void compute(Value& value, const Value& previous, const Sharding& sharding) {
    const auto [position, is_new] =
        positions.emplace(value.get(), outputs.size());
    if (is_new) {
      outputs.push_back({value, previous, sharding});
    }
    targets.emplace_back(&value, position->second);
  }

  // Computes the operands that were created before the cut, for nodes that were
  // created after it.
  void compute_operands(Node& root) {
    std::vector<Node*> stack{&root};
    while (!stack.empty()) {
      Node& node = *stack.back();
      stack.pop_back();
      if (!visited.insert(&node).second) {
        continue;
      }
      for (Value& operand : node.operands) {
        if (needs_no_run(*operand)) {
          kept.insert(operand.get());
        } else if (is_later(*operand)) {
          stack.push_back(operand.get());
        } else {
          compute(operand, nullptr, {});
        }
      }
    }
  }
};

void Tracer::run() {
  Plan plan;
  run_plan(plan);
}

void Tracer::run_until(const Node& last) {
  Plan plan{.cut = last.sequence};
  run_plan(plan);
}

void Tracer::run_plan(Plan& plan) {
  for (Cell* cell = ends_.right_; cell != &ends_; cell = cell->right_) {
    Node* node = cell->value.get();
    if (node == nullptr) {
      continue;
    }
    if (needs_no_run(*node)) {
      plan.kept.insert(node);
    } else if (plan.is_later(*node)) {
      plan.compute_operands(*node);
    } else {
      plan.compute(cell->value, cell->previous_, cell->sharding_);
    }
  }
  if (!plan.outputs.empty()) {
    const std::vector<Value> values = runner_->run(plan.outputs, plan.kept);
    for (const auto& [value, position] : plan.targets) {
      *value = values[position];
    }
  }
  for (Cell* cell = ends_.right_; cell != &ends_; cell = cell->right_) {
    if (cell->value == nullptr || needs_no_run(*cell->value)) {
      const bool on_device =
          cell->value != nullptr && cell->value->op == Op::input;
      cell->previous_ = on_device ? cell->value : nullptr;
    }
  }
}

Value Tracer::computed(const Value& value) {
  if (value->op == Op::input) {
    return value;
  }
  Cell* cell = make_cell();
  cell->value = value;
  Value result;
  try {
    run();
    // `run` does not compute constants and scalars, so such a value is computed
    // separately.
    result = cell->value->op == Op::input
                 ? cell->value
                 : runner_->run({{value, nullptr, {}}}, {})[0];
  } catch (...) {
    destroy_cell(cell);
    throw;
  }
  destroy_cell(cell);
  return result;
}

void Tracer::wait() {
  runner_->wait();
}

Tracer& open_device(const DeviceOptions& options) {
  const std::lock_guard lock(opening);
  if (Tracer* existing = opened.load()) {
    if (!same(opened_with, options)) {
      throw StateError(
          "the XLA device is already open with different options",
          "use the same XLA options everywhere in the program");
    }
    return *existing;
  }
  const Plugin plugin(options.plugin);
  std::optional<ProgramStore> store;
  if (!options.cache.empty()) {
    store.emplace(options.cache);
  }
  auto runner = std::make_unique<Runner>(
      plugin,
      Client(plugin, {.device_count = options.device_count}),
      std::move(store));
  opened_with = options;
  opened = new Tracer(std::move(runner), options.strict);
  return *opened.load();
}

bool is_open() {
  return opened.load() != nullptr;
}

Tracer& tracer() {
  Tracer* existing = opened.load();
  if (existing == nullptr) {
    throw StateError(
        "no XLA device is open",
        "create the `Accelerator` that uses XLA before the first XLA tensor");
  }
  return *existing;
}

}  // namespace accelerate::xla
