// SPDX-License-Identifier: Apache-2.0
// The operators that the XLA device has recorded but not run yet.
//
// NOTE [Cells]
// The storage of an XLA tensor is a `Cell`. A cell has no memory of its own; it
// refers to the `Value` (graph/node.h) that the storage currently has. An
// operator makes new values and puts them into the cells of its results. Views
// of one storage share its cell; see NOTE [Views]. `run` computes the values of
// all live cells in one program. Afterwards, each cell refers to a constant or
// to a value in device memory.
//
// NOTE [Donation]
// A cell remembers the value in device memory that it had after the last run.
// If the cell has been written since, and no other live cell has the old value,
// no tensor can reach the old value, so the new value may reuse the memory of
// the old value. The result of `detach()` shares the cell and therefore sees
// the write, as on every device. A clone, or a loss that the training loop
// keeps, has its own cell and keeps its value.
//
// NOTE [Cut]
// A step of training ends when the optimizer has written the parameters, but
// the program that computes the step runs later, and the next step may already
// be recorded by then. `run_until` therefore runs only the nodes that were
// created up to a given one. Nodes that were created later keep waiting; their
// operands that have been computed are replaced by inputs.
//
// Thread safety: hold `Tracer::lock`. Backward passes record operators on
// threads of the autograd engine.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

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

  /// Locks this object and all cells. The mutex is recursive, because an
  /// operator may call other operators.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock() {
    return std::unique_lock(mutex_);
  }

  // The caller must hold the lock for all functions below.

  Cell* make_cell();
  void destroy_cell(Cell* cell);

  /// Starts a program that computes every live cell.
  void run();
  /// Starts a program that computes the nodes that live cells need, but only
  /// those created up to and including `last`; see NOTE [Cut].
  void run_until(const Node& last);
  /// Returns `value` as an input for later programs. Computes the value first
  /// if it is not in device memory yet.
  Value computed(const Value& value);
  /// Waits for all started programs.
  void wait();

  Runner& runner() { return *runner_; }
  /// Returns whether an operator without a lowering is an error.
  bool strict() const { return strict_; }
  void set_strict(bool strict) { strict_ = strict; }
  TracerCounts& counts() { return counts_; }

 private:
  struct Plan;
  void run_plan(Plan& plan);

  std::recursive_mutex mutex_;
  std::unique_ptr<Runner> runner_;
  bool strict_;
  Cell ends_;  ///< The ring of live cells starts and ends here.
  TracerCounts counts_;
};

/// How the device is opened.
struct DeviceOptions {
  std::string plugin = {};  ///< Absolute path of a PJRT plugin.
  /// The number of devices to use; see `ClientOptions`.
  std::optional<std::int64_t> device_count = std::nullopt;
  /// The folder in which compiled programs are stored. If empty, programs are
  /// not stored.
  std::string cache = {};
  bool strict = false;
};

/// Opens all devices of this process as one mesh. A second call returns the
/// same object, or throws `StateError` if the options differ. `register_device`
/// must be called first.
Tracer& open_device(const DeviceOptions& options);

/// Returns the object that `open_device` created. Throws `StateError` if no
/// device is open.
Tracer& tracer();
bool is_open();

}  // namespace accelerate::xla
