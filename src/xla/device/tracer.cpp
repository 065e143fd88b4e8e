// SPDX-License-Identifier: Apache-2.0
#include "xla/device/tracer.h"

#include <atomic>
#include <unordered_map>

#include "accelerate/error.h"

namespace accelerate::xla {
namespace {

// A value that later programs take or repeat as it is.
bool needs_no_run(const Node& node) {
  return node.op == Op::input || node.op == Op::constant;
}

// Never destroyed: tensors in static variables outlive it.
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

void Tracer::run() {
  std::vector<Output> outputs;
  std::unordered_set<const Node*> kept;
  std::unordered_map<const Node*, std::size_t> positions;
  std::vector<std::pair<Cell*, std::size_t>> targets;
  for (Cell* cell = ends_.right_; cell != &ends_; cell = cell->right_) {
    const Node* node = cell->value.get();
    if (node == nullptr) {
      continue;
    }
    if (needs_no_run(*node)) {
      kept.insert(node);
      continue;
    }
    const auto [position, is_new] = positions.emplace(node, outputs.size());
    if (is_new) {
      outputs.push_back({cell->value, cell->previous_, cell->sharding_});
    }
    targets.emplace_back(cell, position->second);
  }
  if (!outputs.empty()) {
    const std::vector<Value> values = runner_->run(outputs, kept);
    for (const auto& [cell, position] : targets) {
      cell->value = values[position];
    }
  }
  for (Cell* cell = ends_.right_; cell != &ends_; cell = cell->right_) {
    const bool on_device =
        cell->value != nullptr && cell->value->op == Op::input;
    cell->previous_ = on_device ? cell->value : nullptr;
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
    // A constant is not an output of a run: compute it alone.
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
