// SPDX-License-Identifier: Apache-2.0
// What the XLA device has recorded and not run yet.
//
// NOTE [Cells]
// The storage of an XLA tensor is a `Cell`: it has no memory, only the `Value`
// that its elements have now. An operator makes new values and puts them into
// the cells of its results; views of one storage share its cell (views.h).
// `run` computes the values of all live cells in one program, after which each
// holds a value in device memory.
//
// NOTE [Donation]
// A cell remembers the device value that it held after the last run. If the
// cell has been written since, and no other live cell still has that value, no
// tensor can reach it: the new value may take its memory. `detach()` shares the
// cell, so it sees the write as on every device; a clone or a kept loss is a
// cell of its own and keeps its value.
//
// Thread-safe: backward records from a thread of the autograd engine.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "xla/graph/runner.h"

namespace accelerate::xla {

class Cell {
 public:
  Value value;  ///< Null until the first write.

 private:
  friend class Tracer;
  Value previous_;  ///< See NOTE [Donation].
  Sharding sharding_;
  Cell* left_ = nullptr;
  Cell* right_ = nullptr;
};

/// Counts for tests and reports.
struct TracerCounts {
  std::int64_t recorded = 0;   ///< Operators lowered.
  std::int64_t fallbacks = 0;  ///< Operators run on the CPU.
};

class Tracer {
 public:
  explicit Tracer(std::unique_ptr<Runner> runner, bool strict);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Protects everything here; recursive, because an operator may call others.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock() {
    return std::unique_lock(mutex_);
  }

  // The rest needs the lock.

  Cell* make_cell();
  void destroy_cell(Cell* cell);

  /// Starts a program that computes every live cell.
  void run();
  /// The value as an input of later programs, computed now if it has to be.
  Value computed(const Value& value);
  /// Waits for all started programs.
  void wait();

  Runner& runner() { return *runner_; }
  /// Whether an operator without a lowering is an error.
  bool strict() const { return strict_; }
  void set_strict(bool strict) { strict_ = strict; }
  TracerCounts& counts() { return counts_; }

 private:
  std::recursive_mutex mutex_;
  std::unique_ptr<Runner> runner_;
  bool strict_;
  Cell ends_;  ///< The ring of live cells starts and ends here.
  TracerCounts counts_;
};

/// How the device is opened.
struct DeviceOptions {
  std::string plugin = {};        ///< Absolute path of a PJRT plugin.
  std::int64_t device_count = 1;  ///< For a plugin that can choose.
  std::string cache = {};         ///< Folder for programs; none if empty.
  bool strict = false;
};

/// Opens the devices of this process: one tracer, one mesh. Throws
/// `StateError` if they are open with other options. Needs `register_device`.
Tracer& open_device(const DeviceOptions& options);

/// The open device; throws `StateError` if there is none.
Tracer& tracer();
bool is_open();

}  // namespace accelerate::xla
