// SPDX-License-Identifier: Apache-2.0
// A device graph on the CPU, for tests of code that uses device graphs.
#pragma once

#include <memory>
#include <vector>

#include "device/device_backend.h"

namespace accelerate {

/// `capture` records every operation with its arguments; `replay` runs the
/// operations again and writes to the same result tensors, just as a device
/// replays kernels with fixed addresses.
///
/// Unlike on a device, `capture` also runs the operations.
class TapeGraph : public DeviceGraph {
 public:
  TapeGraph();
  ~TapeGraph() override;

  void capture(const std::function<void()>& body) override;
  void replay() override;

  /// Returns whether this thread is inside a `capture`.
  static bool is_capturing();
  /// Returns the number of graphs that exist now.
  static int count();

  struct Tape;

 private:
  std::unique_ptr<Tape> tape_;
};

}  // namespace accelerate
